"""A light UNet for CPUs: little work where voxels are many, a quarter of VNet's time a voxel."""

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tracoco.geometry import Size, Strides, total_stride
from tracoco.networks import NETWORKS
from tracoco.networks.network import (
    CONVOLUTION,
    TRANSPOSED,
    Decoder,
    Encoder,
    Network,
    Up,
    add,
    level_widths,
)
from tracoco.networks.statistics import SplitBatchNorm2d, SplitBatchNorm3d

FACTS = NETWORKS["light-unet"]
WIDEST = 320
"""Channels of a deep level, as in nnU-Net: more would cost memory for weights alone."""
DROPOUT = 0.1
"""Fraction of whole channels, behind the coarsest level."""
SLOPE = 0.01
Layer = Callable[[int], nn.Module]
"""Makes a layer for so many channels."""
BATCH_NORM: dict[int, Layer] = {2: SplitBatchNorm2d, 3: SplitBatchNorm3d}
Normalisation = Literal["batch", "instance"]
DecoderKind = Literal["convolution", "pointwise"]


class LightUNet(Network):
    """Strided convolutions down, one residual unit a coarse level, linear interpolation up."""

    dimensions: ClassVar[int]

    def __init__(
        self,
        channels: int,
        classes: int,
        filters: int,
        strides: Strides = (),
        normalisation: Normalisation = "batch",
        decoder: DecoderKind = "convolution",
    ) -> None:
        """Draw the weights.

        Args:
            channels: of a crop.
            classes: channels of the logits.
            filters: channels of the finest level.
            strides: how deep it goes and which axes each level halves; else its own.
            normalisation: of the maps, as `NetworkConfig.normalisation` says.
            decoder: its layers, as `NetworkConfig.decoder` says.
        """
        own = FACTS.own_strides(self.dimensions)
        levels = strides or own
        # Networks with three halvings had no limit before there were deeper ones.
        widest = max(WIDEST, filters * 2 ** len(own))
        widths = tuple(min(width, widest) for width in level_widths(filters, len(levels) + 1))
        norm = partial(_norm, normalisation, self.dimensions)
        self._decoder = partial(
            _decoder,
            widths,
            strides=levels,
            norm=norm,
            mix=partial(_mix, decoder, self.dimensions, filters),
        )
        encoder = _encoder(channels, widths, levels, norm)
        super().__init__(encoder, self._decoder("linear"), Pointwise(filters, classes), widths)
        self.strides = levels

    @property
    def stride(self) -> Size:
        """What each axis of a crop must be divisible by."""
        return total_stride(self.strides)

    def make_decoder(self, up: Up) -> Decoder:
        """Before interpolation a 1x1 convolution halves the channels."""
        return self._decoder(up)


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

    def __init__(self, up: Up, stride: Size) -> None:
        super().__init__()
        self.mode = up
        self.axes = [axis for axis, step in enumerate(stride, start=2) if step == 2]

    def forward(self, maps: Tensor) -> Tensor:
        """[B, C, X, ...] to [B, C, 2X, ...] where the stride is 2; the values of `nn.Upsample`."""
        for axis in self.axes:
            maps = self._along(maps, axis)
        return maps

    def _along(self, maps: Tensor, axis: int) -> Tensor:
        weights = self._weights(maps, axis)
        if axis == maps.dim() - 1:
            return torch.matmul(maps, weights)
        rows = torch.matmul(weights.T, maps.flatten(axis + 1))
        doubled: Tensor = rows.unflatten(-1, maps.shape[axis + 1 :])
        return doubled

    def _weights(self, maps: Tensor, axis: int) -> Tensor:
        # What interpolation makes of each unit vector: [n, 2n].
        unit = torch.eye(maps.shape[axis], dtype=maps.dtype, device=maps.device)
        return F.interpolate(unit[None], scale_factor=2, mode=self.mode)[0]


class Residual(nn.Module):
    """A convolution whose result is added to its input."""

    def __init__(self, width: int, dimensions: int, norm: Layer) -> None:
        super().__init__()
        convolution = CONVOLUTION[dimensions](width, width, 3, padding=1, bias=False)
        self.body = nn.Sequential(convolution, norm(width))

    def forward(self, maps: Tensor) -> Tensor:
        """Same shape in and out."""
        return F.leaky_relu(maps + self.body(maps), SLOPE)


def _norm(kind: Normalisation, dimensions: int, width: int) -> nn.Module:
    if kind == "batch":
        return BATCH_NORM[dimensions](width)
    # One channel a group is instance normalisation; torch is faster at it this way.
    return nn.GroupNorm(width, width)


def _activated(norm: nn.Module, *layers: nn.Module) -> nn.Sequential:
    return nn.Sequential(*layers, norm, nn.LeakyReLU(SLOPE, inplace=True))


def _encoder(channels: int, widths: tuple[int, ...], strides: Strides, norm: Layer) -> Encoder:
    dimensions = len(strides[0])
    convolution = CONVOLUTION[dimensions]
    first = convolution(channels, widths[0], 3, padding=1, bias=False)
    stages = [_activated(norm(widths[0]), first)]
    for (fine, coarse), stride in zip(pairwise(widths), strides, strict=True):
        halve = convolution(fine, coarse, kernel_size=stride, stride=stride, bias=False)
        stages.append(
            nn.Sequential(_activated(norm(coarse), halve), Residual(coarse, dimensions, norm))
        )
    stages[-1].append({2: nn.Dropout2d, 3: nn.Dropout3d}[dimensions](DROPOUT))
    return Encoder(stages)


def _mix(kind: DecoderKind, dimensions: int, finest: int, width: int) -> nn.Module:
    """The layer behind each sum of a map that comes up and one of the encoder.

    At the finest level, with `finest` channels, a kernel of three voxels would take a quarter of
    the network's time, for a gain within the noise (docs/explanation/recipe.md).
    """
    if kind == "convolution" and width != finest:
        return CONVOLUTION[dimensions](width, width, 3, padding=1, bias=False)
    return Pointwise(width, width, bias=False)


def _decoder(widths: tuple[int, ...], up: Up, strides: Strides, norm: Layer, mix: Layer) -> Decoder:
    pairs = list(pairwise(reversed(widths)))
    return Decoder(
        [
            _double(coarse, fine, up, stride)
            for (coarse, fine), stride in zip(pairs, reversed(strides), strict=True)
        ],
        [_activated(norm(fine), mix(fine)) for _, fine in pairs],
        merge=add,
    )


def _double(coarse: int, fine: int, up: Up, stride: Size) -> nn.Module:
    if up == "transpose":
        transposed = TRANSPOSED[len(stride)]
        return transposed(coarse, fine, kernel_size=stride, stride=stride, bias=False)
    return nn.Sequential(Pointwise(coarse, fine, bias=False), Double(up, stride))
