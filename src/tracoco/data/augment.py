"""Flips, turns and intensities: a pure operation each, and a function that draws it.

Amounts of intensity are relative to the image's own mean, deviation and range, so that they mean
the same whatever the intensities were normalised to.
"""

import math
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

from tracoco.geometry import Box, Index, Size
from tracoco.settings import AugmentationConfig

Plane = tuple[int, int]
Limits = tuple[float, float]
"""The lowest and the highest intensity that a scan can have."""
UNIT: Limits = (0.0, 1.0)
Voxel = TypeVar("Voxel", bound=np.generic)


@dataclass(frozen=True, slots=True)
class Orientation:
    """The axes of `plane` exchanged or not, then some axes reversed: any flip or quarter turn."""

    plane: Plane
    exchanged: bool
    reversed_axes: tuple[int, ...]

    @property
    def reversed_before(self) -> Index:
        """The axes of the stored volume that end up reversed."""
        swap = {self.plane[0]: self.plane[1], self.plane[1]: self.plane[0]}
        return tuple(
            swap.get(axis, axis) if self.exchanged else axis for axis in self.reversed_axes
        )

    def size_before(self, size: Size) -> Size:
        """The size in the stored volume of a box that has `size` afterwards."""
        return self._exchange(size)

    def place(self, box: Box, shape: Index) -> Index:
        """Where a box of a stored volume of `shape` starts in the oriented volume."""
        start, size = list(self._exchange(box.start)), self._exchange(box.size)
        for axis in self.reversed_axes:
            start[axis] = self._exchange(shape)[axis] - start[axis] - size[axis]
        return tuple(start)

    def apply(self, array: NDArray[Voxel]) -> NDArray[Voxel]:
        """Orient an array whose last axes are spatial."""
        leading = array.ndim - 3
        if self.exchanged:
            array = array.swapaxes(leading + self.plane[0], leading + self.plane[1])
        return np.flip(array, tuple(leading + axis for axis in self.reversed_axes))

    def undo(self, array: NDArray[Voxel]) -> NDArray[Voxel]:
        """A view of an oriented array as it was before: what is written to it gets oriented."""
        leading = array.ndim - 3
        array = np.flip(array, tuple(leading + axis for axis in self.reversed_axes))
        if self.exchanged:
            array = array.swapaxes(leading + self.plane[0], leading + self.plane[1])
        return array

    def _exchange(self, index: Index) -> Index:
        if not self.exchanged:
            return index
        moved = list(index)
        a, b = self.plane
        moved[a], moved[b] = index[b], index[a]
        return tuple(moved)


def draw_orientation(
    random: Generator, plane: Plane, *, flip_axes: tuple[int, ...], turns: bool
) -> Orientation:
    """A random orientation out of those that the two settings reach, all equally likely."""
    turn = int(random.integers(4)) if turns else 0
    flipped = {axis for axis in flip_axes if random.random() < 0.5}
    # One quarter turn is an exchange and a flip; two are two flips; three are an exchange and
    # the other flip. Flips on top of it cancel those of the turn where they meet.
    turned: set[int] = (set(), {plane[0]}, set(plane), {plane[1]})[turn]
    return Orientation(plane, turn % 2 == 1, tuple(sorted(flipped.symmetric_difference(turned))))


def draw_brightness(random: Generator, amount: float) -> float:
    """A factor in [1 - amount, 1 + amount]."""
    return float(random.uniform(1 - amount, 1 + amount))


def brighten(
    values: NDArray[np.float32],
    factor: float,
    into: NDArray[np.float32] | None = None,
    limits: Limits = UNIT,
) -> NDArray[np.float32]:
    """Multiply intensities, and keep them in their limits.

    Z-scores are 0 at the mean of their scan: there it is a change of contrast about the mean.
    """
    bright: NDArray[np.float32] = np.multiply(values, np.float32(factor), out=into)
    return bright if factor <= 1 else bright.clip(*limits, out=bright)


def spread(
    values: NDArray[np.float32],
    factor: float,
    pivot: NDArray[np.float32],
    limits: Limits = UNIT,
) -> NDArray[np.float32]:
    """Multiply the distance of intensities from a pivot, and keep them in their limits."""
    changed: NDArray[np.float32] = np.clip(pivot + np.float32(factor) * (values - pivot), *limits)
    return changed


def blur(values: NDArray[np.float32], sigma: float, axes: tuple[int, ...]) -> NDArray[np.float32]:
    """A Gaussian blur along some axes; beyond the array its border goes on for ever."""
    blurred: NDArray[np.float32] = gaussian_filter(
        values, sigma, axes=axes, radius=blur_reach(sigma), mode="nearest"
    )
    return blurred


def blur_reach(sigma: float) -> int:
    """How many voxels away a blur still looks; three deviations hold all but 0.3 % of it."""
    return math.ceil(3 * sigma)


@dataclass(frozen=True, slots=True)
class Appearance:
    """How the intensities of a crop change; one for both crops of a pair: they show one scan."""

    brightness: float
    contrast: float = 1.0
    pivot: NDArray[np.float32] | None = None
    """Per channel, what the contrast leaves as it is; none where the contrast stays."""
    sigma: float = 0.0
    limits: Limits = UNIT

    @property
    def brightness_alone(self) -> bool:
        """Whether neither contrast nor sharpness changes."""
        return self.pivot is None and not self.sigma

    def apply(self, values: NDArray[np.float32], axes: tuple[int, ...]) -> NDArray[np.float32]:
        """Brighten, change the contrast, and blur along the spatial `axes`, counted from behind."""
        values = brighten(values, self.brightness, limits=self.limits)
        if self.pivot is not None:
            values = spread(values, self.contrast, self.pivot, self.limits)
        return blur(values, self.sigma, axes) if self.sigma else values


def draw_strong(
    random: Generator, appearance: Appearance, voxels: NDArray[np.float32]
) -> Appearance:
    """Looks with a contrast in [0.5, 1.5] and, every other time, a blur of 0.1 to 2 voxels.

    The contrast turns about the mean of `voxels` after the brightness. About the middle of the
    range it would mostly be one more change of brightness, since scans are dark.
    """
    contrast = float(random.uniform(0.5, 1.5))
    sigma = float(random.uniform(0.1, 2)) if random.random() < 0.5 else 0.0
    bright = brighten(voxels, appearance.brightness, limits=appearance.limits)
    pivot = bright.mean(axis=(-3, -2, -1), keepdims=True)
    return replace(appearance, contrast=contrast, pivot=pivot, sigma=sigma)


Image = NDArray[np.float32]
"""[C, X, Y, Z]; channels change independently."""


def change_intensities(
    image: Image,
    valid: NDArray[np.bool_],
    random: Generator,
    amounts: AugmentationConfig,
    axes: tuple[int, ...],
) -> None:
    """Change each channel in place by what is drawn for it; beyond the scan it stays 0.

    Args:
        image: what both crops of a pair are cut out of.
        valid: false beyond the scan, [X, Y, Z].
        random: decides.
        amounts: how much, and how often.
        axes: spatial axes, counted from behind, along which it may be blurred or made coarse.
    """
    whole = bool(valid.all())
    for channel in image:
        _change_sharpness(channel, random, amounts, axes)
        # Without the padding, whose zeros would be part of mean, deviation and range.
        values = channel.reshape(-1) if whole else channel[valid]
        _change_values(values, random, amounts)
        if not whole:
            channel[valid] = values
            channel[~valid] = 0


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
    """Raise intensities, as a fraction of their range, to a power, in place.

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
