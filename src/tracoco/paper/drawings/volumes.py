"""Drawings of scans: answers beside the truth, as a slice with outlines and as a surface."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy import ndimage

from tracoco.errors import UserError
from tracoco.evaluation.metrics import dice
from tracoco.paper.drawings.slices import (
    brightness,
    dark_panels,
    largest_slice,
    outline_slice,
    show_slice,
)
from tracoco.report.pictures import INK, PREDICTION, TRUTH
from tracoco.report.rays import Floats, Viewpoint
from tracoco.report.slices import surroundings
from tracoco.report.surface_view import Colour, render_surface

LATER_CLASSES = ("#00a37a", "#d487b8", "#d9c24a", "#8f93ef")
"""Surfaces of the second class and those after it; the first has the colour of its outline."""


@dataclass(frozen=True, slots=True, eq=False)
class QualitativeColumn:
    """Whose label map [X, Y, Z] it is, and the map."""

    title: str
    label: NDArray[Any]


def qualitative(
    columns: Sequence[QualitativeColumn],
    image: NDArray[np.floating],
    spacing_mm: Sequence[float],
    viewpoint: Viewpoint | None = None,
) -> Figure:
    """The truth, then each method: an axial slice with outlines above, the surface below.

    The slice is the one in which the truth is largest.

    Args:
        columns: the first is the truth, whose outline is in every slice.
        image: the scan [X, Y, Z] that all labels lie on.
        spacing_mm: side lengths of a voxel.
        viewpoint: where the viewer of the surfaces stands.
    """
    shown = np.any([column.label != 0 for column in columns], axis=0)
    if not shown.any():
        raise UserError("no column has a structure to show; choose another case")
    box = surroundings(shown, spacing_mm)
    near, truth = image[box], columns[0].label[box]
    place = (0, 0, largest_slice(truth if truth.any() else shown[box]))
    surfaces = _surfaces(columns, shown, spacing_mm, viewpoint)
    height, width = surfaces[0].shape[:2]
    slices = near.shape[1] * spacing_mm[1] / (near.shape[0] * spacing_mm[0])
    figure, panels = dark_panels(len(columns), (slices, height / width))
    for index, (column, surface) in enumerate(zip(columns, surfaces, strict=True)):
        above, below = panels[:, index]
        show_slice(above, near, place, spacing_mm, brightness(near))
        outline_slice(above, truth, place, spacing_mm, TRUTH, width=2.4)
        if index:
            outline_slice(above, column.label[box], place, spacing_mm, PREDICTION, width=1.3)
        below.imshow(surface)
        below.set_axis_off()
        about = _score(column.label[box], truth) if index else "blue in every slice"
        above.set_title(f"{column.title}\n{about}", color=INK, fontsize=9)
    return figure


def _surfaces(
    columns: Sequence[QualitativeColumn],
    shown: NDArray[np.bool_],
    spacing_mm: Sequence[float],
    viewpoint: Viewpoint | None,
) -> list[Floats]:
    """All in one frame, as tight as the largest of them lets it be."""
    (box,) = ndimage.find_objects(shown.astype(np.uint8))
    values = sorted(
        {int(value) for column in columns for value in np.unique(column.label) if value}
    )
    found = []
    for index, column in enumerate(columns):
        colours = _class_colours(values, PREDICTION if index else TRUTH)
        found.append(render_surface(column.label[box], spacing_mm, colours, viewpoint))
    seen = np.any([surface[..., 3] > 0 for surface in found], axis=0)
    (window,) = ndimage.find_objects(seen.astype(np.uint8))
    return [surface[window] for surface in found]


def _class_colours(values: Sequence[int], first: str) -> dict[int, Colour]:
    names = (first, *LATER_CLASSES * (len(values) // len(LATER_CLASSES) + 1))
    return {value: to_rgb(name) for value, name in zip(values, names, strict=False)}


def mean_dice(label: NDArray[Any], truth: NDArray[Any]) -> float | None:
    """Mean Dice over the classes of either; undefined where there are none."""
    scores = [dice(label == value, truth == value) for value in np.union1d(label, truth) if value]
    known = [score for score in scores if score is not None]
    return fmean(known) if known else None


def _score(label: NDArray[Any], truth: NDArray[Any]) -> str:
    found = mean_dice(label, truth)
    return "no structure" if found is None else f"Dice {100 * found:.1f} %"
