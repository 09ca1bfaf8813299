"""Two overlapping crops of one stored volume: same orientation and brightness, another place."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tracoco.config import DataConfig
from tracoco.data.augment import Plane, Voxel, brighten, draw_brightness, draw_orientation
from tracoco.geometry import Box, Index, start_range, whole
from tracoco.project.store import StoredCase


@dataclass(frozen=True, slots=True)
class Crop:
    """Voxels of one box; `start` is its place in the oriented volume, below 0 where padded."""

    values: NDArray[np.float32]
    inside: NDArray[np.bool_]
    start: Index


@dataclass(frozen=True, slots=True)
class CropPair:
    """Two crops of one case; the label belongs to the first, and only labelled cases have one."""

    case: str
    first: Crop
    second: Crop
    label: NDArray[np.uint8] | None


@dataclass(frozen=True, slots=True)
class CropRule:
    """How crops are drawn in this run."""

    size: Index
    plane: Plane
    """Axes whose spacing is equal, for quarter turns; the in-plane axes of 2D projects."""
    turns: bool
    config: DataConfig

    @property
    def flip_axes(self) -> tuple[int, ...]:
        """Axes that may be flipped: all along which a crop is more than a slice."""
        return tuple(i for i, n in enumerate(self.size) if n > 1) if self.config.flips else ()


def draw_crop_pair(
    case: StoredCase, rule: CropRule, random: Generator, *, labelled: bool
) -> CropPair:
    """Draw orientation, brightness and two places, then read only the voxels that they need."""
    orientation = draw_orientation(
        random, rule.plane, flip_axes=rule.flip_axes, turns=rule.turns and rule.config.turns
    )
    factor = draw_brightness(random, rule.config.brightness)
    size = orientation.size_before(rule.size)
    first = draw_first(case, size, random, rule.config.foreground if labelled else 0.0)
    second = draw_second(first, case.shape, random)
    image = case.image()

    def crop(box: Box) -> Crop:
        values = orientation.apply(brighten(read_box(image, box), factor))
        inside = orientation.apply(inside_volume(box, case.shape))
        return Crop(values, inside, orientation.place(box, case.shape))

    label = orientation.apply(read_box(case.label(), first)) if labelled else None
    return CropPair(case.id, crop(first), crop(second), label)


def draw_first(case: StoredCase, size: Index, random: Generator, foreground: float) -> Box:
    """A box anywhere in the volume, or, with probability `foreground`, over a foreground voxel."""
    ranges = [start_range(n, s) for n, s in zip(case.shape, size, strict=True)]
    if random.random() < foreground and len(voxels := case.foreground()):
        voxel = random.choice(voxels)
        ranges = [
            (min(max(low, v - s + 1), high), max(min(high, v), low))
            for (low, high), v, s in zip(ranges, voxel, size, strict=True)
        ]
    return Box(tuple(int(random.integers(low, high + 1)) for low, high in ranges), size)


def draw_second(first: Box, shape: Index, random: Generator) -> Box:
    """A box shifted by at most half its size along each axis, never by nothing if there is room."""
    ranges = []
    for start, size, length in zip(first.start, first.size, shape, strict=True):
        low, high = start_range(length, size)
        ranges.append((max(low, start - size // 2), min(high, start + size // 2)))
    room = any(low < high for low, high in ranges)
    while True:
        place = tuple(int(random.integers(low, high + 1)) for low, high in ranges)
        if place != first.start or not room:
            return Box(place, first.size)


def read_box(array: NDArray[Voxel], box: Box) -> NDArray[Voxel]:
    """The voxels of a box, zero where it reaches beyond the volume; leading axes are kept."""
    shape = array.shape[-3:]
    covered = box.intersect(whole(shape))
    if covered == box:
        return np.array(array[_last_axes(box)])
    padded = np.zeros((*array.shape[:-3], *box.size), dtype=array.dtype)
    padded[_last_axes(covered.seen_from(box.start))] = array[_last_axes(covered)]
    return padded


def _last_axes(box: Box) -> Any:
    """A box as an index behind any leading axes."""
    return (..., *box.slices)


def inside_volume(box: Box, shape: Index) -> NDArray[np.bool_]:
    """Which voxels of a box lie in the volume and are not padding."""
    inside = np.zeros(box.size, dtype=np.bool_)
    inside[box.intersect(whole(shape)).seen_from(box.start).slices] = True
    return inside
