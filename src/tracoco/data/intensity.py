"""Changes of intensity in the image that a pair of crops is cut out of.

Amounts are relative to the image's own mean, deviation and range, so that they mean the same
whatever the intensities were normalised to.
"""

import math

import numpy as np
import torch
import torch.nn.functional as F
from numpy.random import Generator
from numpy.typing import NDArray

from tracoco.config import AugmentationConfig
from tracoco.data.augment import blur

Image = NDArray[np.float32]
"""[C, X, Y, Z]; channels change independently."""


def change_intensities(
    image: Image,
    inside: NDArray[np.bool_],
    random: Generator,
    amounts: AugmentationConfig,
    axes: tuple[int, ...],
) -> None:
    """Change each channel in place by what is drawn for it; beyond the scan it stays 0.

    Args:
        image: what both crops of a pair are cut out of.
        inside: false beyond the scan, [X, Y, Z].
        random: decides.
        amounts: how much, and how often.
        axes: spatial axes, counted from behind, along which it may be blurred or made coarse.
    """
    whole = bool(inside.all())
    for channel in image:
        _change_sharpness(channel, random, amounts, axes)
        # Without the padding, whose zeros would be part of mean, deviation and range.
        values = channel.reshape(-1) if whole else channel[inside]
        _change_values(values, random, amounts)
        if not whole:
            channel[inside] = values
            channel[~inside] = 0


def _change_sharpness(
    channel: Image, random: Generator, amounts: AugmentationConfig, axes: tuple[int, ...]
) -> None:
    if random.random() < amounts.blur_chance:
        channel[...] = blur(channel, random.uniform(*amounts.blur), axes)
    if random.random() < amounts.coarse_chance:
        channel[...] = coarse(channel, random.uniform(1, amounts.coarse), axes)


def _change_values(channel: Image, random: Generator, amounts: AugmentationConfig) -> None:
    """In place, after sharpness: a scanner's electronics come behind its optics."""
    if random.random() < amounts.contrast_chance:
        stretch(channel, _factor(random, amounts.contrast))
    if random.random() < amounts.gamma_chance:
        bend(channel, _factor(random, amounts.gamma), inverted=random.random() < 0.5)
    if random.random() < amounts.brightness_chance:
        channel += random.normal(0, amounts.brightness) * channel.std()
    if random.random() < amounts.noise_chance:
        deviation = random.uniform(0, amounts.noise) * channel.std()
        channel += deviation * random.standard_normal(channel.shape, dtype=np.float32)


def _factor(random: Generator, largest: float) -> float:
    """A factor between 1 / largest and largest; both directions are equally likely."""
    return math.exp(random.uniform(-math.log(largest), math.log(largest)))


def stretch(channel: Image, factor: float) -> None:
    """Multiply distances from the mean, in place, and keep the range that there was."""
    low, high, mean = channel.min(), channel.max(), channel.mean()
    channel -= mean
    channel *= np.float32(factor)
    channel += mean
    channel.clip(low, high, out=channel)


def bend(channel: Image, gamma: float, *, inverted: bool) -> None:
    """Raise intensities, as a share of their range, to a power, in place.

    Mean and deviation stay as they were, so that only the shape of the histogram changes.
    """
    low, width = channel.min(), np.ptp(channel)
    if width == 0:
        return
    mean, deviation = channel.mean(), channel.std()
    channel -= low
    channel /= width
    if inverted:
        np.subtract(1, channel, out=channel)
    np.power(channel, np.float32(gamma), out=channel)
    if inverted:
        np.subtract(1, channel, out=channel)
    changed = channel.std()
    channel -= channel.mean()
    channel *= deviation / changed if changed > 0 else 1.0
    channel += mean


def coarse(channel: Image, factor: float, axes: tuple[int, ...]) -> Image:
    """The channel as if its voxels were larger by a factor along some axes."""
    size = list(channel.shape)
    for axis in axes:
        size[axis] = max(1, round(size[axis] / factor))
    volume = torch.from_numpy(channel)[None, None]
    small = F.interpolate(volume, size, mode="nearest-exact")
    return F.interpolate(small, channel.shape, mode="trilinear", align_corners=False)[0, 0].numpy()
