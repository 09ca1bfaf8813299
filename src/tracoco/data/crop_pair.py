"""Two overlapping crops of one stored volume: same orientation and looks, another place."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tracoco.config import DataConfig
from tracoco.data.augment import (
    Appearance,
    Orientation,
    Plane,
    Voxel,
    blur_reach,
    brighten,
    draw_brightness,
    draw_orientation,
    draw_strong,
)
from tracoco.data.places import draw_first, draw_second
from tracoco.geometry import Box, Index, whole
from tracoco.project.store import StoredCase


@dataclass(frozen=True, slots=True, eq=False)
class Crop:
    """A box of a volume as it will look; its voxels are read when they are asked for."""

    image: NDArray[np.float32]
    """The whole volume [C, ...], mapped from its file."""
    box: Box
    orientation: Orientation
    looks: Appearance
    looked_at: bool = True
    """Nothing is read of a crop that nobody looks at: its last axis is of length 0."""

    @property
    def start(self) -> Index:
        """Its place in the oriented volume, below 0 where it is padded."""
        return self.orientation.place(self.box, self.image.shape[1:])

    @property
    def shape(self) -> Index:
        """Of its voxels, [C, ...]."""
        size = self.orientation.size_before(self.box.size)  # to exchange twice is to do nothing
        return (len(self.image), *size[:-1], size[-1] if self.looked_at else 0)

    @property
    def values(self) -> NDArray[np.float32]:
        """Its voxels."""
        values = np.empty(self.shape, dtype=np.float32)
        self.read(values)
        return values

    @property
    def inside(self) -> NDArray[np.bool_]:
        """Which of its voxels lie in the volume."""
        if not self.looked_at:
            return np.empty(self.shape[1:], dtype=np.bool_)
        return self.orientation.apply(inside_volume(self.box, self.image.shape[1:]))

    def read(self, into: NDArray[np.float32]) -> None:
        """Put its voxels where they are wanted: made elsewhere, they would be copied once more."""
        if self.looked_at:
            read_changed(self.image, self.box, self.looks, self.orientation.undo(into))


@dataclass(frozen=True, slots=True, eq=False)
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
    pairs: bool = True
    """Whether the second crops are looked at; if not, their place is drawn and nothing is read."""

    @property
    def flip_axes(self) -> tuple[int, ...]:
        """Axes that may be flipped: of those that are allowed, all that are more than a slice."""
        allowed = {"all": range(len(self.size)), "plane": self.plane, "none": ()}
        return tuple(axis for axis in allowed[self.config.flips] if self.size[axis] > 1)


def draw_crop_pair(
    case: StoredCase, rule: CropRule, random: Generator, *, labelled: bool
) -> CropPair:
    """Draw orientation, looks and two places; voxels of other places are never read."""
    orientation = draw_orientation(
        random, rule.plane, flip_axes=rule.flip_axes, turns=rule.turns and rule.config.turns
    )
    looks = Appearance(draw_brightness(random, rule.config.brightness))
    size = orientation.size_before(rule.size)
    first = draw_first(case, size, random, rule.config.foreground if labelled else 0.0)
    second = draw_second(
        first, case.shape, random, rule.config.overlap, orientation.reversed_before
    )
    image = case.image()
    if rule.config.strong:
        # Drawn last, so that the places are those of a run without it; about the first crop, but
        # for both, since where they meet they must look the same.
        voxels = image[_last_axes(first.intersect(whole(case.shape)))]
        looks = draw_strong(random, looks.brightness, voxels)

    label = orientation.apply(read_box(case.label(), first)) if labelled else None
    return CropPair(
        case.id,
        Crop(image, first, orientation, looks),
        Crop(image, second, orientation, looks, looked_at=rule.pairs),
        label,
    )


def read_changed(
    image: NDArray[np.float32], box: Box, looks: Appearance, into: NDArray[np.float32]
) -> None:
    """Write the voxels of a box as they look after a change of intensities, zero beyond the volume.

    A blur is given what lies around the box, so that crops agree where they meet. Along an axis
    on which the box is a single slice nothing is blurred.
    """
    covered = box.intersect(whole(image.shape[-3:]))
    place = into[_last_axes(covered.seen_from(box.start))]
    if covered != box:
        into[...] = 0
    if looks.brightness_alone:
        brighten(image[_last_axes(covered)], looks.brightness, into=place)
        return
    margin = tuple(blur_reach(looks.sigma) if n > 1 else 0 for n in box.size)
    start = tuple(a - m for a, m in zip(box.start, margin, strict=True))
    size = tuple(n + 2 * m for n, m in zip(box.size, margin, strict=True))
    around = Box(start, size).intersect(whole(image.shape[-3:]))
    axes = tuple(axis - len(margin) for axis, m in enumerate(margin) if m)
    changed = looks.apply(image[_last_axes(around)], axes)
    place[...] = changed[_last_axes(covered.seen_from(around.start))]


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
