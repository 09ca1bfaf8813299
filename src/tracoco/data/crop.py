"""Crops of a stored volume: where they lie, and how one is turned, changed and read when wanted."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tracoco.config import OverlapRule
from tracoco.data.augment import Appearance, Orientation, Voxel, blur_reach, brighten
from tracoco.geometry import Box, Index, Size, start_range, whole
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


@dataclass(frozen=True, slots=True, eq=False)
class Crop:
    """A box of a volume as it will look; its voxels are read when they are asked for."""

    image: NDArray[np.float32]
    """The whole volume [C, ...], mapped from its file."""
    box: Box
    orientation: Orientation
    appearance: Appearance
    image_valid: NDArray[np.bool_] | None = None
    """Which voxels of `image` lie in the scan; all of them if not given."""
    label: NDArray[np.uint8] | None = None
    """Of the whole volume, where some voxels are not drawn: those count as padding."""
    used: bool = True
    """Nothing is read of a crop that is not used: its last axis is of length 0."""

    @property
    def start(self) -> Index:
        """Its place in the oriented volume, below 0 where it is padded."""
        return self.orientation.place(self.box, self.image.shape[1:])

    @property
    def shape(self) -> Size:
        """Of its voxels, [C, ...]."""
        size = self.orientation.size_before(self.box.size)  # to exchange twice is to do nothing
        return (len(self.image), *size[:-1], size[-1] if self.used else 0)

    @property
    def padded(self) -> bool:
        """Whether it reaches beyond the scan."""
        if self.label is not None or self.box.intersect(whole(self.image.shape[1:])) != self.box:
            return True
        return self.image_valid is not None and not self.image_valid[self.box.slices].all()

    @property
    def values(self) -> NDArray[np.float32]:
        """Its voxels."""
        values = np.empty(self.shape, dtype=np.float32)
        self.read(values)
        return values

    @property
    def valid(self) -> NDArray[np.bool_]:
        """Which of its voxels lie in the volume."""
        valid = np.empty(self.shape[1:], dtype=np.bool_)
        self.mark(valid)
        return valid

    def read(self, into: NDArray[np.float32]) -> None:
        """Put its voxels where they are wanted: made elsewhere, they would be copied once more."""
        if self.used:
            read_changed(self.image, self.box, self.appearance, self.orientation.undo(into))

    def mark(self, into: NDArray[np.bool_]) -> None:
        """Say of each voxel whether it lies in the scan, and whether it is drawn."""
        if not self.used:
            return
        place = self.orientation.undo(into)
        if self.image_valid is None:
            mark_valid(self.box, self.image.shape[1:], place)
        else:
            place[...] = read_box(self.image_valid, self.box)
        if self.label is not None:
            place &= is_drawn(read_box(self.label, self.box))


def read_changed(
    image: NDArray[np.float32], box: Box, appearance: Appearance, into: NDArray[np.float32]
) -> None:
    """Write the voxels of a box as they look after a change of intensities, zero beyond the volume.

    A blur is given what lies around the box, so that crops agree where they meet. Along an axis
    on which the box is a single slice nothing is blurred.
    """
    covered = box.intersect(whole(image.shape[-3:]))
    place = into[last_axes(covered.seen_from(box.start))]
    if covered != box:
        into[...] = 0
    if appearance.brightness_alone:
        brighten(
            image[last_axes(covered)], appearance.brightness, into=place, limits=appearance.limits
        )
        return
    margin = tuple(blur_reach(appearance.sigma) if n > 1 else 0 for n in box.size)
    start = tuple(a - m for a, m in zip(box.start, margin, strict=True))
    size = tuple(n + 2 * m for n, m in zip(box.size, margin, strict=True))
    around = Box(start, size).intersect(whole(image.shape[-3:]))
    axes = tuple(axis - len(margin) for axis, m in enumerate(margin) if m)
    changed = appearance.apply(image[last_axes(around)], axes)
    place[...] = changed[last_axes(covered.seen_from(around.start))]


def read_box(array: NDArray[Voxel], box: Box) -> NDArray[Voxel]:
    """The voxels of a box, zero where it reaches beyond the volume; leading axes are kept."""
    shape = array.shape[-3:]
    covered = box.intersect(whole(shape))
    if covered == box:
        return np.array(array[last_axes(box)])
    padded = np.zeros((*array.shape[:-3], *box.size), dtype=array.dtype)
    padded[last_axes(covered.seen_from(box.start))] = array[last_axes(covered)]
    return padded


def last_axes(box: Box) -> Any:
    """A box as an index behind any leading axes."""
    return (..., *box.slices)


def inside_volume(box: Box, shape: Size) -> NDArray[np.bool_]:
    """Which voxels of a box lie in the volume and are not padding."""
    valid = np.empty(box.size, dtype=np.bool_)
    mark_valid(box, shape, valid)
    return valid


def mark_valid(box: Box, shape: Size, into: NDArray[np.bool_]) -> None:
    """Write which voxels of a box lie in the volume; mostly all of them do."""
    covered = box.intersect(whole(shape))
    into[...] = covered == box
    if covered != box:
        into[covered.seen_from(box.start).slices] = True
