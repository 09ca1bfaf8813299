"""Strong views: crops with another brightness, contrast and sharpness, every voxel in its place."""

import math

import torch
from torch import Tensor

from tracoco.methods.parts.cutmix import happens, uniform

Limits = tuple[float, float]
"""The lowest and the highest intensity that a scan can have."""

JITTERED = 0.8
"""Fraction of the crops whose brightness and contrast change."""
JITTER = 0.5
"""Brightness and contrast are multiplied by a factor in [1 - this, 1 + this]."""
BLURRED = 0.5
"""Fraction of the crops that are blurred."""
SIGMA = (0.1, 2.0)
"""Least and largest deviation of the blur, in voxels."""


def strong_view(crops: Tensor, valid: Tensor, limits: Limits) -> Tensor:
    """Crops that are changed as in UniMatch's release for medical images, each by its own draw.

    Args:
        crops: intensities within `limits`, [B, C, ...]; the view keeps to them.
        valid: false where the crops are padding, [B, ...]; padding stays as it is.
        limits: the lowest and the highest intensity.
    """
    views = [
        _draw_view(crop, mask, limits)
        for crop, mask in zip(crops.split(1), valid.split(1), strict=True)
    ]
    return torch.where(valid.unsqueeze(1), torch.cat(views), crops)


def brighten(crops: Tensor, factor: float, limits: Limits) -> Tensor:
    """Multiply intensities, and keep them in their limits."""
    return (factor * crops).clamp(*limits)


def change_contrast(crops: Tensor, valid: Tensor, factor: float, limits: Limits) -> Tensor:
    """Multiply the distance from the mean of each crop and channel, and keep the limits."""
    axes = tuple(range(2, crops.ndim))
    weight = valid.unsqueeze(1)
    count = weight.sum(axes, keepdim=True).clamp(min=1)
    mean = (crops * weight).sum(axes, keepdim=True) / count
    return (mean + factor * (crops - mean)).clamp(*limits)


def blur(crops: Tensor, sigma: float) -> Tensor:
    """A Gaussian blur along every axis; beyond a crop its border goes on for ever."""
    reach = math.ceil(3 * sigma)
    offsets = range(-reach, reach + 1)
    heights = [math.exp(-0.5 * (offset / sigma) ** 2) for offset in offsets]
    for axis in range(2, crops.ndim):
        last = crops.shape[axis] - 1
        places = torch.arange(last + 1, device=crops.device)
        # Sums and no convolution, which autocast would round to half precision.
        blurred = torch.zeros_like(crops)
        for offset, height in zip(offsets, heights, strict=True):
            blurred += height * crops.index_select(axis, (places + offset).clamp(0, last))
        crops = blurred / sum(heights)
    return crops


def _draw_view(crop: Tensor, valid: Tensor, limits: Limits) -> Tensor:
    # Brightness and contrast commute but for what leaves the limits, so their order is not drawn.
    if happens(JITTERED):
        crop = brighten(crop, uniform(1 - JITTER, 1 + JITTER), limits)
        contrast = uniform(1 - JITTER, 1 + JITTER)
        crop = change_contrast(crop, valid, contrast, limits)
    return blur(crop, uniform(*SIGMA)) if happens(BLURRED) else crop
