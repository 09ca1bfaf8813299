"""Boxes on a voxel grid: where crops lie and overlap, which windows cover a volume; strides."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

Index = tuple[int, ...]
"""Where a voxel is: one number per axis."""
Size = tuple[int, ...]
"""How many voxels a crop, a window or a volume has along each axis."""
Strides = tuple[Size, ...]
"""How a network goes down its levels: for each level below the finest, the voxels along each axis
that become one."""


@dataclass(frozen=True, slots=True)
class Box:
    """A box of `size` voxels at `start`; `start` may be negative where a volume is padded."""

    start: Index
    size: Size

    @property
    def stop(self) -> Index:
        """The first index behind the box, per axis."""
        return tuple(start + size for start, size in zip(self.start, self.size, strict=True))

    @property
    def slices(self) -> tuple[slice, ...]:
        """The box as an index into the spatial axes of an array."""
        return tuple(slice(a, b) for a, b in zip(self.start, self.stop, strict=True))

    @property
    def empty(self) -> bool:
        """Whether no voxel is inside."""
        return any(size <= 0 for size in self.size)

    def intersect(self, other: "Box") -> "Box":
        """The voxels inside both boxes; empty where they do not meet."""
        start = tuple(map(max, zip(self.start, other.start, strict=True)))
        stop = tuple(map(min, zip(self.stop, other.stop, strict=True)))
        return Box(start, tuple(max(b - a, 0) for a, b in zip(start, stop, strict=True)))

    def around(self, other: "Box") -> "Box":
        """The smallest box that holds both."""
        start = tuple(map(min, zip(self.start, other.start, strict=True)))
        stop = tuple(map(max, zip(self.stop, other.stop, strict=True)))
        return Box(start, tuple(b - a for a, b in zip(start, stop, strict=True)))

    def seen_from(self, origin: Index) -> "Box":
        """The same voxels with `origin` as index zero, e.g. of a crop that starts there."""
        return Box(tuple(a - o for a, o in zip(self.start, origin, strict=True)), self.size)


def whole(shape: Sequence[int]) -> Box:
    """The box of a whole volume."""
    return Box((0,) * len(shape), tuple(shape))


def overlap(first: Index, second: Index, size: Size) -> tuple[Box, Box]:
    """Where two crops of one size meet, as seen from the first and from the second crop."""
    shared = Box(first, size).intersect(Box(second, size))
    return shared.seen_from(first), shared.seen_from(second)


def start_range(length: int, size: int, room: int = 0) -> tuple[int, int]:
    """Lowest and highest start of a crop along an axis.

    A volume shorter than the crop is centred in it, so there is one start, and it is negative.
    Where the two starts are less than `room` apart, both move outwards: such crops reach beyond the
    volume.
    """
    low, high = (0, length - size) if length >= size else (-((size - length) // 2),) * 2
    missing = max(0, room - (high - low))
    return low - missing // 2, high + missing - missing // 2


def window_starts(length: int, size: int, stride: int) -> list[int]:
    """Starts of windows at most `stride` apart that cover an axis, evenly spread."""
    low, high = start_range(length, size)
    count = -(-(high - low) // stride) + 1
    return [low + round(i * (high - low) / max(count - 1, 1)) for i in range(count)]


def windows(shape: Sequence[int], size: Size, stride: Size) -> list[Box]:
    """Windows of `size` that together cover a volume of `shape`."""
    starts = (window_starts(*axis) for axis in zip(shape, size, stride, strict=True))
    return [Box(start, size) for start in product(*starts)]


def piece_axis(shape: Sequence[int], window: Size) -> int:
    """The axis along which a window covers the smallest fraction of a volume."""
    fractions = [w / n for n, w in zip(shape, window, strict=True)]
    return fractions.index(min(fractions))


def total_stride(strides: Strides) -> Size:
    """Voxels of the finest level that lie along each axis of one voxel of the coarsest."""
    return tuple(map(prod, zip(*strides, strict=True)))


def form_problem(strides: Strides, dimensions: int) -> str:
    """What is wrong with strides as a person wrote them; empty if nothing is."""
    if any(len(stride) != dimensions for stride in strides):
        return f"each level needs {dimensions} numbers, one an axis"
    if any(not set(stride) <= {1, 2} or 2 not in stride for stride in strides):
        return "each level halves some axes (2) and leaves the others (1)"
    return ""


def crop_problem(strides: Strides, crop: Sequence[int]) -> str:
    """Why a crop cannot go down these levels; empty if it can. Without levels it always can."""
    for axis, (size, step) in enumerate(zip(crop, total_stride(strides), strict=False)):
        if size % step or (step > 1 and size < 2 * step):
            return f"{size} voxels along axis {axis} do not make 2 or more of {step} each"
    return ""
