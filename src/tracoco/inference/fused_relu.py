"""Convolutions that do what comes behind them while they write their values."""

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from tracoco.inference.chains import layer_at, neighbours


class ConvolutionReLU(nn.Module):
    """oneDNN's convolution with the ReLU inside: a map that is written once, not twice."""

    def __init__(self, convolution: _ConvNd, slope: float = 0.0) -> None:
        """`slope` is that of values below zero."""
        super().__init__()
        self.convolution = convolution
        self.activation = ("leaky_relu", [slope]) if slope else ("relu", [])

    def forward(self, maps: Tensor) -> Tensor:
        """The same as the convolution, then the ReLU."""
        own = self.convolution
        place = (own.padding, own.stride, own.dilation, own.groups)
        fused: Tensor = torch.ops.mkldnn._convolution_pointwise(  # noqa: SLF001 - has no other name
            maps, own.weight, own.bias, *place, *self.activation, ""
        )
        return fused


class ResidualConvolution(nn.Module):
    """oneDNN's convolution whose result is added to its input while it is written.

    Small maps are faster this way on one core, too: torch's own convolution would leave oneDNN out.
    """

    def __init__(self, convolution: _ConvNd) -> None:
        super().__init__()
        self.convolution = convolution

    def forward(self, maps: Tensor) -> Tensor:
        """Same shape in and out."""
        own = self.convolution
        place = (own.padding, own.stride, own.dilation, own.groups)
        added: Tensor = torch.ops.mkldnn._convolution_pointwise.binary(  # noqa: SLF001 - as above
            maps, maps, own.weight, own.bias, *place, "add", 1.0, None, [], None
        )
        return added


def fuse_relus(network: nn.Module) -> None:
    """Put every ReLU right behind a convolution into it, where torch can do that here."""
    for place, relu_place in list(neighbours(network)):
        convolution, relu = layer_at(place), layer_at(relu_place)
        if type(relu) in (nn.ReLU, nn.LeakyReLU) and can_fuse(convolution):
            slope = relu.negative_slope if isinstance(relu, nn.LeakyReLU) else 0.0
            setattr(*place, ConvolutionReLU(cast("_ConvNd", convolution), slope))
            setattr(*relu_place, nn.Identity())


def can_fuse(layer: nn.Module) -> bool:
    """Whether torch has an operation here that does more than this convolution."""
    return (
        hasattr(torch.ops.mkldnn, "_convolution_pointwise")  # not in every build of torch
        and isinstance(layer, nn.Conv2d | nn.Conv3d)
        and type(layer) in (nn.Conv2d, nn.Conv3d)
        and layer.weight.is_cpu
        and layer.weight.dtype == torch.float32
        and layer.padding_mode == "zeros"
        and not isinstance(layer.padding, str)
    )
