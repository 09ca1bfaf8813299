"""Flips, quarter turns and brightness: a pure operation each, and a function that draws it."""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tracoco.geometry import Box, Index

Plane = tuple[int, int]
Voxel = TypeVar("Voxel", bound=np.generic)


@dataclass(frozen=True, slots=True)
class Orientation:
    """The axes of `plane` exchanged or not, then some axes reversed: any flip or quarter turn."""

    plane: Plane
    exchanged: bool
    reversed_axes: tuple[int, ...]

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


def brighten(values: NDArray[np.float32], factor: float) -> NDArray[np.float32]:
    """Multiply intensities that lie in [0, 1], and keep them there."""
    bright: NDArray[np.float32] = np.clip(values * np.float32(factor), 0, 1)
    return bright
