"""A convolution that cuts its values off at zero while it writes them."""

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from tracoco.inference.chains import layer_at, neighbours


class ConvolutionReLU(nn.Module):
    """oneDNN's convolution with the ReLU inside: a map that is written once, not twice."""

    def __init__(self, convolution: _ConvNd) -> None:
        super().__init__()
        self.convolution = convolution

    def forward(self, maps: Tensor) -> Tensor:
        """The same as the convolution, then the ReLU."""
        own = self.convolution
        place = (own.padding, own.stride, own.dilation, own.groups)
        fused: Tensor = torch.ops.mkldnn._convolution_pointwise(  # noqa: SLF001 - has no other name
            maps, own.weight, own.bias, *place, "relu", [], ""
        )
        return fused


def fuse_relus(network: nn.Module) -> None:
    """Put every ReLU right behind a convolution into it, where torch can do that here."""
    if not hasattr(torch.ops.mkldnn, "_convolution_pointwise"):  # another build of torch
        return
    for place, relu_place in list(neighbours(network)):
        convolution, relu = layer_at(place), layer_at(relu_place)
        if type(relu) is nn.ReLU and isinstance(convolution, _ConvNd) and _can_fuse(convolution):
            setattr(*place, ConvolutionReLU(convolution))
            setattr(*relu_place, nn.Identity())


def _can_fuse(layer: _ConvNd) -> bool:
    return (
        type(layer) in (nn.Conv2d, nn.Conv3d)
        and layer.weight.is_cpu
        and layer.weight.dtype == torch.float32
        and layer.padding_mode == "zeros"
        and not isinstance(layer.padding, str)
    )
