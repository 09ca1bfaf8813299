"""Heads on the coarse levels of a decoder, for methods that compare what the levels say."""

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn

from tracoco.networks.layers import CONVOLUTION

HEAD_SIZE = {2: 3, 3: 1}
"""Voxels along an axis of a coarse level's head, by number of dimensions, as in URPC's release."""


def level_heads(widths: Sequence[int], classes: int, dimensions: int) -> nn.ModuleList:
    """A head for each coarse level.

    Args:
        widths: channels of the levels' maps, coarse to fine.
        classes: channels of the logits.
        dimensions: 2 or 3.
    """
    size = HEAD_SIZE[dimensions]
    return nn.ModuleList(
        CONVOLUTION[dimensions](width, classes, kernel_size=size, padding=size // 2)
        for width in widths
    )


def at_crop_size(logits: Tensor, size: Sequence[int]) -> Tensor:
    """Logits of a coarse level in float32, resized to the crops.

    Linear, where URPC's 2D release takes the nearest voxel, which teaches jagged edges.
    """
    mode = {2: "bilinear", 3: "trilinear"}[len(size)]
    return F.interpolate(logits.float(), tuple(size), mode=mode)
