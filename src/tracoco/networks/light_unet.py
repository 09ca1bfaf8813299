"""A light UNet for CPUs: little work where voxels are many, a quarter of VNet's time a voxel."""

from itertools import pairwise
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tracoco.networks.layers import CONVOLUTION, TRANSPOSED, Up, level_widths
from tracoco.networks.network import Network
from tracoco.networks.stages import Decoder, Encoder

LEVELS = 4
DROPOUT = 0.1
"""Share of whole channels, behind the coarsest level."""
SLOPE = 0.01


class LightUNet(Network):
    """Strided convolutions down, one residual unit a coarse level, linear interpolation up.

    Each crop is normalised by itself, without running statistics: training and test differ by
    dropout alone. The statistics are those of the crop, so predict in windows of the same size.
    """

    dimensions: ClassVar[int]

    def __init__(self, channels: int, classes: int, filters: int) -> None:
        widths = level_widths(filters, LEVELS)
        encoder = _encoder(channels, widths, self.dimensions)
        decoder = _decoder(widths, "linear", self.dimensions)
        super().__init__(encoder, decoder, Pointwise(filters, classes), widths)

    def make_decoder(self, up: Up) -> Decoder:
        """Before interpolation a 1x1 convolution halves the channels."""
        return _decoder(self.feature_channels, up, self.dimensions)


class LightUNet2D(LightUNet):
    """For crops [B, C, X, Y]."""

    dimensions = 2


class LightUNet3D(LightUNet):
    """For crops [B, C, X, Y, Z]."""

    dimensions = 3


class Pointwise(nn.Linear):
    """A 1x1 convolution as a matrix product, which is faster than torch's own on a CPU."""

    def forward(self, maps: Tensor) -> Tensor:
        """Mix the channels of each voxel: [B, C, ...] to [B, C', ...]."""
        weight = self.weight.expand(len(maps), -1, -1)
        mixed = torch.bmm(weight, maps.flatten(2))
        if self.bias is not None:
            mixed = mixed + self.bias[:, None]
        return mixed.reshape(len(maps), -1, *maps.shape[2:])


class Double(nn.Module):
    """Double the resolution by a matrix product an axis: half the time of `nn.Upsample`."""

    def __init__(self, up: Up) -> None:
        super().__init__()
        self.mode = up

    def forward(self, maps: Tensor) -> Tensor:
        """[B, C, X, ...] to [B, C, 2X, ...]; the same values as `nn.Upsample`."""
        *leading, last = range(2, maps.dim())
        for axis in leading:
            behind = maps.shape[axis + 1 :]
            rows = maps.flatten(axis + 1)
            maps = torch.matmul(self._weights(maps, axis).T, rows).unflatten(-1, behind)
        return torch.matmul(maps, self._weights(maps, last))

    def _weights(self, maps: Tensor, axis: int) -> Tensor:
        # What interpolation makes of each unit vector: [n, 2n].
        unit = torch.eye(maps.shape[axis], dtype=maps.dtype, device=maps.device)
        return F.interpolate(unit[None], scale_factor=2, mode=self.mode)[0]


class Residual(nn.Module):
    """A convolution whose result is added to its input."""

    def __init__(self, width: int, dimensions: int) -> None:
        super().__init__()
        convolution = CONVOLUTION[dimensions](width, width, 3, padding=1, bias=False)
        self.body = nn.Sequential(convolution, _norm(width))

    def forward(self, maps: Tensor) -> Tensor:
        """Same shape in and out."""
        return F.leaky_relu(maps + self.body(maps), SLOPE)


def _norm(width: int) -> nn.Module:
    # One channel a group is instance normalisation; torch is faster at it this way.
    return nn.GroupNorm(width, width)


def _activated(width: int, *layers: nn.Module) -> nn.Sequential:
    return nn.Sequential(*layers, _norm(width), nn.LeakyReLU(SLOPE, inplace=True))


def _encoder(channels: int, widths: tuple[int, ...], dimensions: int) -> Encoder:
    convolution = CONVOLUTION[dimensions]
    stages = [_activated(widths[0], convolution(channels, widths[0], 3, padding=1, bias=False))]
    for fine, coarse in pairwise(widths):
        halve = convolution(fine, coarse, kernel_size=2, stride=2, bias=False)
        stages.append(nn.Sequential(_activated(coarse, halve), Residual(coarse, dimensions)))
    stages[-1].append({2: nn.Dropout2d, 3: nn.Dropout3d}[dimensions](DROPOUT))
    return Encoder(stages)


def _decoder(widths: tuple[int, ...], up: Up, dimensions: int) -> Decoder:
    # Neighbours meet in the encoder; 3x3x3 convolutions here gained too little for their time.
    pairs = list(pairwise(reversed(widths)))
    return Decoder(
        [_double(coarse, fine, up, dimensions) for coarse, fine in pairs],
        [_activated(fine, Pointwise(fine, fine, bias=False)) for _, fine in pairs],
        merge=torch.add,
    )


def _double(coarse: int, fine: int, up: Up, dimensions: int) -> nn.Module:
    if up == "transpose":
        return TRANSPOSED[dimensions](coarse, fine, kernel_size=2, stride=2, bias=False)
    return nn.Sequential(Pointwise(coarse, fine, bias=False), Double(up))
