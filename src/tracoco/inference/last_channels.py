"""Layers of the light UNet for maps whose channels lie last in memory."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import torch.nn.functional as F
from torch import Tensor, nn

from tracoco.inference.chains import is_hooked
from tracoco.inference.fused_relu import ResidualConvolution, can_fuse
from tracoco.networks.light_unet import SLOPE, Double, Pointwise, Residual

if TYPE_CHECKING:
    from torch.nn.modules.conv import _ConvNd


class LastPointwise(nn.Module):
    """A 1x1 convolution as one matrix product over all voxels."""

    def __init__(self, pointwise: Pointwise) -> None:
        super().__init__()
        self.weight, self.bias = pointwise.weight, pointwise.bias

    def forward(self, maps: Tensor) -> Tensor:
        """Mix the channels of each voxel: [B, C, ...] to [B, C', ...]."""
        return F.linear(maps.movedim(1, -1), self.weight, self.bias).movedim(-1, 1)


class LastDouble(nn.Module):
    """Torch's own interpolation, which is the faster one in this layout."""

    def __init__(self, double: Double) -> None:
        super().__init__()
        self.axes, self.mode = double.axes, double.mode

    def forward(self, maps: Tensor) -> Tensor:
        """The values of `Double`."""
        axes = range(2, maps.dim())
        factors = [2.0 if axis in self.axes else 1.0 for axis in axes]
        linear = {3: "linear", 4: "bilinear", 5: "trilinear"}[maps.dim()]
        mode = linear if self.mode == "linear" else self.mode
        return F.interpolate(maps, scale_factor=factors, mode=mode)


class LastResidual(nn.Module):
    """A residual unit that writes its map once."""

    def __init__(self, residual: Residual) -> None:
        super().__init__()
        self.added = ResidualConvolution(cast("_ConvNd", residual.body[0]))

    def forward(self, maps: Tensor) -> Tensor:
        """The values of `Residual`, whose normalisation is inside of its convolution."""
        return F.leaky_relu_(self.added(maps), SLOPE)


STAND_INS: dict[type[nn.Module], Callable[[Any], nn.Module]] = {
    Pointwise: LastPointwise,
    Double: LastDouble,
    Residual: LastResidual,
}


def use_last_channels(network: nn.Module) -> None:
    """Replace layers of a network on a CPU that are made for channels that lie first.

    All of its normalisation must be inside of convolutions.
    """
    if not all(weight.is_cpu for weight in network.parameters()):
        return
    for holder in list(network.modules()):
        for name, part in holder.named_children():
            stand_in = STAND_INS.get(type(part))
            fits = not isinstance(part, Residual) or can_fuse(part.body[0])
            if stand_in and fits and not is_hooked(part):
                setattr(holder, name, stand_in(part))
