"""Two overlapping crops of one stored volume: same orientation and looks, another place."""

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tracoco.config import DataConfig
from tracoco.data.augment import (
    UNIT,
    Appearance,
    Limits,
    Orientation,
    Plane,
    change_intensities,
    draw_brightness,
    draw_orientation,
    draw_strong,
)
from tracoco.data.crop import (
    Crop,
    draw_first,
    draw_second,
    inside_volume,
    last_axes,
    on_drawn,
    read_box,
    start_ranges,
)
from tracoco.data.warp import draw_warp, fine_axes, sample
from tracoco.geometry import Box, Size, whole
from tracoco.project.store import StoredCase


@dataclass(frozen=True, slots=True, eq=False)
class CropPair:
    """Two crops of one case; the label belongs to the first, and only labelled cases have one."""

    case: str
    first: Crop
    second: Crop
    label: NDArray[np.uint8] | None
    pseudo_label: NDArray[np.uint8] | None = None
    """What an earlier run has predicted for the first crop, where the method learns from it."""


@dataclass(frozen=True, slots=True)
class CropRule:
    """How crops are drawn in this run."""

    size: Size
    plane: Plane
    """Axes whose spacing is equal, for quarter turns; the in-plane axes of 2D projects."""
    turns: bool
    config: DataConfig
    mirror_axes: tuple[int, ...] = ()
    """Axes along which the plan allows mirroring."""
    pairs: bool = True
    """Whether the second crops are used; if not, their place is drawn and nothing is read."""
    limits: Limits = UNIT

    @property
    def flip_axes(self) -> tuple[int, ...]:
        """Axes that may be flipped: of those that are allowed, all that are more than a slice."""
        everywhere = range(len(self.size))
        allowed = {"plan": self.mirror_axes, "all": everywhere, "plane": self.plane, "none": ()}
        return tuple(axis for axis in allowed[self.config.flips] if self.size[axis] > 1)


def draw_crop_pair(
    case: StoredCase,
    rule: CropRule,
    random: Generator,
    *,
    labelled: bool,
    slice_: int | None = None,
    pseudo_label: NDArray[np.uint8] | None = None,
) -> CropPair:
    """Draw orientation, looks and two places; voxels of other places are never read.

    Args:
        case: the stored volume.
        rule: how crops are drawn in this run.
        random: decides.
        labelled: whether the label of the first crop is read.
        slice_: the slice that both crops are of, or any.
        pseudo_label: of the whole volume of an unlabelled case, to be cut and turned like a label.
    """
    orientation = draw_orientation(
        random, rule.plane, flip_axes=rule.flip_axes, turns=rule.turns and rule.config.turns
    )
    appearance = Appearance(draw_brightness(random, rule.config.brightness), limits=rule.limits)
    size = orientation.size_before(rule.size)
    ranges = start_ranges(case.shape, size, rule.config.room, slice_)
    first = draw_first(case, size, ranges, random, rule.config.foreground if labelled else 0.0)
    if labelled and case.undrawn:
        first = on_drawn(case, first, ranges, random)
    second = draw_second(first, ranges, random, rule.config.overlap, orientation.reversed_before)
    source = case.label() if labelled else pseudo_label
    partial = source if labelled and case.undrawn else None
    if rule.config.augmentation.active:
        here, there, label = _augmented(
            case, rule, random, (first, second), orientation, appearance, source=source
        )
        return _pair(case.id, here, there, label, labelled=labelled)
    image = case.image()
    if rule.config.strong:
        # Drawn last, so that the places are those of a run without it; about the first crop, but
        # for both, since where they meet they must look the same.
        voxels = image[last_axes(first.intersect(whole(case.shape)))]
        appearance = draw_strong(random, appearance, voxels)

    label = None if source is None else orientation.apply(read_box(source, first))
    return _pair(
        case.id,
        Crop(image, first, orientation, appearance, label=partial),
        Crop(image, second, orientation, appearance, label=partial, used=rule.pairs),
        label,
        labelled=labelled,
    )


def _pair(
    id_: str, first: Crop, second: Crop, label: NDArray[np.uint8] | None, *, labelled: bool
) -> CropPair:
    """Both crops, and the label by what it is: a person's, or an earlier run's."""
    if labelled:
        return CropPair(id_, first, second, label)
    return CropPair(id_, first, second, None, label)


def _augmented(  # noqa: PLR0913 - what was drawn of a pair so far
    case: StoredCase,
    rule: CropRule,
    random: Generator,
    boxes: tuple[Box, Box],
    orientation: Orientation,
    appearance: Appearance,
    *,
    source: NDArray[np.uint8] | None,
) -> tuple[Crop, Crop, NDArray[np.uint8] | None]:
    """Both crops out of one image that is deformed and changed once, over all that they cover.

    The label of the first is cut out of `source`, if there is one.
    """
    first, second = boxes
    amounts, partial = rule.config.augmentation, source is not None and case.undrawn > 0
    region = first.around(second) if rule.pairs else first
    here, there = (box.seen_from(region.start) for box in boxes)
    warp = draw_warp(random, amounts, region, case.spacing_mm)
    wanted = Box((0, 0, 0), region.size) if partial else here
    if warp:
        image, valid, label = sample(case.image(), source, region, warp, label_box=wanted)
    else:
        image, valid = read_box(case.image(), region), inside_volume(region, case.shape)
        label = None if source is None else read_box(source, region if partial else first)
    drawn = label if partial else None
    if drawn is not None:
        label = drawn[here.slices]
    axes = tuple(axis - 3 for axis in fine_axes(region.size, case.spacing_mm))
    change_intensities(image, valid, random, amounts, axes)
    if rule.config.strong:
        appearance = draw_strong(random, appearance, image[last_axes(here)])
    return (
        Crop(image, here, orientation, appearance, valid, drawn),
        Crop(image, there, orientation, appearance, valid, drawn, used=rule.pairs),
        None if label is None else orientation.apply(label),
    )
