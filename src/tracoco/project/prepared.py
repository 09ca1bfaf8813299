"""One case read, checked and brought to the network's grid; nothing is written here."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracoco.digest import digest
from tracoco.geometry import Box
from tracoco.project.cases import Case
from tracoco.project.plan import Plan
from tracoco.project.preprocess import (
    check_channels,
    class_indices,
    kept_box,
    label_to_network_grid,
    to_network_grid,
)
from tracoco.project.survey import check_geometry
from tracoco.scans.reader import read_grid, read_grids, read_images, read_label
from tracoco.scans.scan import Shape, Spacing

VOXELS = {
    "above_background": "its voxels above the constant background",
    "above_air": "its voxels brighter than air",
    "all": "all its voxels",
}
"""`Plan.statistics_over` in words."""
MOST_FOREGROUND = 1000
"""Foreground voxels kept a case: enough places for crops, and read in no time."""


@dataclass(frozen=True, slots=True, eq=False)
class PreparedCase:
    """What the store keeps of a case; without a label the case is unlabelled."""

    image: NDArray[np.float32]
    label: NDArray[np.uint8] | None
    spacing_mm: Spacing
    scan_shape: Shape
    """Of the whole scan, by canonical axes."""
    box: Box
    """The part of the scan that is stored, by canonical axes."""
    steps: tuple[str, ...]
    """What was done to the scan, for a person."""

    @property
    def shape(self) -> Shape:
        """Of the spatial axes, in stored order."""
        a, b, c = self.image.shape[1:]
        return (a, b, c)


def prepare_case(case: Case, plan: Plan) -> PreparedCase:
    """Read a case and bring it to the network's grid; its label is opened only if it has one."""
    about = read_grids(case.images)
    check_channels(about.channels, plan, about.source)
    if case.label:
        check_geometry(about, read_grid(case.label))
    image, box = _read_image(case, plan)
    label, lost = _read_label(case, plan, about.spacing_mm, box)
    a, b, c = (
        box.size[axis] * about.spacing_mm[axis] / length
        for axis, length in zip(plan.stored_axes, image.shape[1:], strict=True)
    )
    steps = (
        "axes turned to right, anterior, superior",
        *_cropping(about.shape, box, lost),
        *(f"channel {number} {_clipping(plan, number)}" for number in range(plan.channels)),
        f"axes {plan.stored_axes} stored in this order",
        f"resampled from {box.size} voxels of {about.spacing_mm} mm",
    )
    return PreparedCase(image, label, (a, b, c), about.shape, box, steps)


def _read_image(case: Case, plan: Plan) -> tuple[NDArray[np.float32], Box]:
    """The image on the network's grid, and which part of the scan that is."""
    scan = read_images(case.images)
    box = kept_box(scan.array, plan)
    return to_network_grid(scan.array, scan.spacing_mm, plan, box), box


def _read_label(
    case: Case, plan: Plan, spacing_mm: Spacing, box: Box
) -> tuple[NDArray[np.uint8] | None, int]:
    """The label of that part, and how many voxels of structures lie outside of it."""
    if case.label is None:
        return None, 0
    indices = class_indices(read_label(case.label).array, plan, case.label)
    kept = indices[box.slices]
    lost = int(np.count_nonzero(indices) - np.count_nonzero(kept))
    return label_to_network_grid(kept, spacing_mm, plan), lost


def foreground_voxels(label: NDArray[np.uint8], id_: str) -> NDArray[np.int32]:
    """Some foreground voxels [N, 3], always the same for a case.

    No class has more than an equal share, so that a small structure is not lost among large ones.
    """
    generator = np.random.default_rng(int(digest(id_)[:16], 16))
    present = np.unique(label[label > 0])
    chosen = []
    for index in present:
        places = np.flatnonzero(label == index)
        count = min(MOST_FOREGROUND // len(present), len(places))
        chosen.append(np.sort(generator.choice(places, count, replace=False)))
    flat = np.concatenate(chosen) if chosen else np.zeros(0, dtype=np.int64)
    return np.stack(np.unravel_index(flat, label.shape), axis=1).astype(np.int32)


def _cropping(shape: Shape, box: Box, lost: int) -> Iterator[str]:
    if box.size != shape:
        yield f"voxels {box.start} to before {box.stop} of {shape}: the rest is a constant margin"
    if lost:
        yield f"{lost} labelled voxels lost, which lie in that margin"


def _clipping(plan: Plan, channel: int) -> str:
    window = plan.window[channel]
    percentiles = f"percentiles {plan.low_percentile} and {plan.high_percentile}"
    ends = f"{window[0]} and {window[1]}" if window else f"its {percentiles}"
    if plan.normalisation == "range":
        return f"clipped at {ends} and scaled to [0, 1]"
    if window:
        mean, sd = plan.window_scale(channel, window)
        return f"clipped at {ends}, less {mean:g}, divided by {sd:g}"
    voxels = VOXELS[plan.statistics_over[channel]]
    return f"less the mean and divided by the deviation of {voxels}, clipped at {percentiles}"
