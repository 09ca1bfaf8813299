"""Where the two crops of a pair lie."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tracoco.config import OverlapRule
from tracoco.geometry import Box, Size, start_range, whole
from tracoco.project.preprocess import is_drawn
from tracoco.project.store import StoredCase

Range = tuple[int, int]
"""Lowest and highest start along an axis."""


def start_ranges(
    shape: Size, size: Size, room: float = 0.0, slice_: int | None = None
) -> list[Range]:
    """Where a crop may start along each axis.

    Args:
        shape: of the volume.
        size: of the crop.
        room: `DataConfig.room`.
        slice_: the only slice along the first axis, or any.
    """
    ranges = [
        start_range(n, s, round(room * s) if s > 1 else 0) for n, s in zip(shape, size, strict=True)
    ]
    return ranges if slice_ is None else [(slice_, slice_), *ranges[1:]]


def has_room(shape: Sequence[int], size: Size, room: float = 0.0) -> bool:
    """Whether a crop has another place along any axis; a single slice is not shifted."""
    ranges = start_ranges(tuple(shape), size, room)
    return any(low < high and n > 1 for (low, high), n in zip(ranges, size, strict=True))


def draw_first(
    case: StoredCase, size: Size, ranges: Sequence[Range], random: Generator, foreground: float
) -> Box:
    """A box anywhere in its ranges, or, with probability `foreground`, over a foreground voxel."""
    if random.random() < foreground and len(voxels := _reachable(case.foreground(), size, ranges)):
        return _draw_over(voxels, size, ranges, random)
    return draw_anywhere(size, ranges, random)


def on_drawn(case: StoredCase, box: Box, ranges: Sequence[Range], random: Generator) -> Box:
    """The box if its part of the label has a drawn voxel, or else another one that has."""
    label, scan = case.label(), whole(case.shape)
    if is_drawn(label[box.intersect(scan).slices]).any():
        return box
    voxels = _reachable(case.drawn(), box.size, ranges)
    if not len(voxels):  # of a slice that none of the sampled voxels lies in
        reach = [high - low + size for (low, high), size in zip(ranges, box.size, strict=True)]
        part = Box(tuple(low for low, _ in ranges), tuple(reach)).intersect(scan)
        voxels = np.argwhere(is_drawn(label[part.slices])) + part.start
    return _draw_over(voxels, box.size, ranges, random) if len(voxels) else box


def _draw_over(voxels: NDArray[Any], size: Size, ranges: Sequence[Range], random: Generator) -> Box:
    """A box over one of some voxels."""
    voxel = random.choice(voxels)
    ranges = [
        (min(max(low, v - s + 1), high), max(min(high, v), low))
        for (low, high), v, s in zip(ranges, voxel, size, strict=True)
    ]
    return draw_anywhere(size, ranges, random)


def draw_anywhere(size: Size, ranges: Sequence[Range], random: Generator) -> Box:
    """A box anywhere in its ranges, each place equally likely."""
    return Box(tuple(int(random.integers(low, high + 1)) for low, high in ranges), size)


def _reachable(voxels: NDArray[np.int32], size: Size, ranges: Sequence[Range]) -> NDArray[np.int32]:
    """The voxels that some box of the ranges covers: all, unless the box is tied to a slice."""
    low, high = np.transpose(ranges)
    reachable: NDArray[np.bool_] = ((voxels >= low) & (voxels < high + size)).all(axis=1)
    return voxels[reachable]


def draw_second(
    first: Box,
    ranges: Sequence[Range],
    random: Generator,
    rule: OverlapRule = "random",
    reversed_axes: Sequence[int] = (),
) -> Box:
    """A box that meets the first one, as far from it as `DataConfig.overlap` says.

    Args:
        first: the other box.
        ranges: where it may start along each axis.
        random: decides.
        rule: what they have in common.
        reversed_axes: axes that will be reversed afterwards, so that low is high for now.
    """
    if rule == "full":
        return first
    if rule == "random":
        return _draw_near(first, ranges, random)
    place = []
    for axis, (start, size, (low, high)) in enumerate(
        zip(first.start, first.size, ranges, strict=True)
    ):
        if rule == "low":
            end = high if axis in reversed_axes else low
            place.append(_draw_towards(end, start, size, random))
        else:
            # Rounded down, so that at least one voxel is left in common.
            shift = size // 2 if rule == "half" else size * 3 // 4
            place.append(_draw_beside(start, shift, (low, high), random))
    return Box(tuple(place), first.size)


def _draw_near(first: Box, ranges: Sequence[Range], random: Generator) -> Box:
    """A box shifted by at most half its size along each axis, never by nothing if there is room."""
    ranges = [
        (max(low, start - size // 2), min(high, start + size // 2))
        for start, size, (low, high) in zip(first.start, first.size, ranges, strict=True)
    ]
    room = any(low < high for low, high in ranges)
    while True:
        place = tuple(int(random.integers(low, high + 1)) for low, high in ranges)
        if place != first.start or not room:
            return Box(place, first.size)


def _draw_beside(start: int, shift: int, limits: Range, random: Generator) -> int:
    """A start `shift` away, or on the side with more room; either side where they are equal."""
    low, high = max(limits[0], start - shift), min(limits[1], start + shift)
    if start - low == high - start:
        return int(random.choice((low, high)))
    return low if start - low > high - start else high


def _draw_towards(end: int, start: int, size: int, random: Generator) -> int:
    """A start on the way to `end`; half a crop away where that would not meet the first."""
    room = abs(end - start)
    if not room:
        return start
    shift = int(random.integers(1, room + 1))
    if shift >= size:
        shift = size // 2
    return start + shift if end > start else start - shift
