"""Torch's layers by number of dimensions, and the ways to double the resolution of a map."""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

Up = Literal["transpose", "linear", "nearest"]

CONVOLUTION: dict[int, Callable[..., nn.Module]] = {2: nn.Conv2d, 3: nn.Conv3d}
TRANSPOSED: dict[int, Callable[..., nn.Module]] = {2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}
CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}
"""The layout with channels last, by number of axes of maps and of kernels."""


def interpolate(up: Up, dimensions: int, *, align_corners: bool = False) -> nn.Module:
    """Double the resolution without weights, by "linear" or "nearest" interpolation."""
    if up == "nearest":
        return nn.Upsample(scale_factor=2, mode="nearest")
    mode = {2: "bilinear", 3: "trilinear"}[dimensions]
    return nn.Upsample(scale_factor=2, mode=mode, align_corners=align_corners)


def concatenate(skip: Tensor, risen: Tensor) -> Tensor:
    """Channels of the encoder's map, then those that come up from the level below."""
    return torch.cat([skip, risen], dim=1)


def level_widths(filters: int, levels: int) -> tuple[int, ...]:
    """Channels of each level, fine to coarse: twice as many at half the resolution."""
    return tuple(filters * 2**level for level in range(levels))


def add(skip: Tensor, risen: Tensor) -> Tensor:
    """Sum of the encoder's map and the one that comes up from the level below.

    The latter is nobody else's: where no gradient needs it as it was, its memory is taken.
    """
    return skip + risen if torch.is_grad_enabled() else risen.add_(skip)
