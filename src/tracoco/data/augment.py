"""Flips, turns and intensities: a pure operation each, and a function that draws it."""

import math
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

from tracoco.geometry import Box, Index

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

    def size_before(self, size: Index) -> Index:
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


def draw_strong(random: Generator, looks: Appearance, voxels: NDArray[np.float32]) -> Appearance:
    """Looks with a contrast in [0.5, 1.5] and, every other time, a blur of 0.1 to 2 voxels.

    The contrast turns about the mean of `voxels` after the brightness. About the middle of the
    range it would mostly be one more change of brightness, since scans are dark.
    """
    contrast = float(random.uniform(0.5, 1.5))
    sigma = float(random.uniform(0.1, 2)) if random.random() < 0.5 else 0.0
    bright = brighten(voxels, looks.brightness, limits=looks.limits)
    pivot = bright.mean(axis=(-3, -2, -1), keepdims=True)
    return replace(looks, contrast=contrast, pivot=pivot, sigma=sigma)
