"""The figure of examples: one test scan, segmented by several methods."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy import ndimage

from tracoco.errors import UserError
from tracoco.evaluation.metrics import dice
from tracoco.methods import METHODS
from tracoco.scans.reader import read_images, read_label
from tracoco.slices import INK, PREDICTION, TRUTH, surroundings
from tracoco.studies.paper.figure import Drawn, Row
from tracoco.studies.paper.figures.drawing_style import (
    brightness,
    dark_panels,
    largest_slice,
    outline_slice,
    show_slice,
)
from tracoco.studies.paper.figures.figure_settings import (
    FigureRun,
    figure_notes,
    preset_for,
    runner_of,
    trained_runs,
)
from tracoco.studies.paper.request import PaperRequest
from tracoco.studies.paper.surface_view import Colour, Floats, Viewpoint, render_surface

LATER_CLASSES = ("#00a37a", "#d487b8", "#d9c24a", "#8f93ef")
"""Surfaces of the second class and those after it; the first has the colour of its outline."""


@dataclass(frozen=True, slots=True, eq=False)
class QualitativeColumn:
    """Whose label map [X, Y, Z] it is, and the map."""

    title: str
    label: NDArray[Any]


def draw_qualitative(
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


OWN = {"pancreas": "pancreas-12", "la": "la-16", "brats19": "brats19-25"}
"""The paper shows one scan of each."""
SHOWN = ("sassnet", "ua-mt", "supervised", "cac", "tracoco")
"""Those of the paper's figure that there are, and `cac` of its first one."""


def qualitative(request: PaperRequest, data: str) -> Drawn:
    """The truth and each method's prediction, as a slice and as a surface; seed 0."""
    request = replace(request, seeds=1)
    own = OWN.get(data, OWN["la"])
    preset = preset_for(request, data, own)
    runner = runner_of(request, data)
    case = runner.project.test_cases()[0]
    assert case.label, "a test case has a label: the split is checked"  # noqa: S101 - cannot happen
    image, truth = read_images(case.images), read_label(case.label).array
    columns = [QualitativeColumn("ground truth", truth)]
    rows: list[Row] = []
    runs = [FigureRun(name, preset, (f"method.name={name}",)) for name in SHOWN if name in METHODS]
    for run, _, folder in trained_runs(request, data, runs):
        label = read_label(runner.predicted(folder, "last") / f"{case.id}.nii.gz").array
        columns.append(QualitativeColumn(run.title, label))
        score = mean_dice(label, truth)
        rows.append(
            {"method": run.title, "scan": case.id, "dice": score and 100 * score, "published": None}
        )
    figure = draw_qualitative(columns, image.array[0], image.spacing_mm)
    notes = (
        f"scan '{case.id}', the first test scan by name, and its slice with the most foreground; "
        "the paper does not say which scans it shows, nor their scores",
        *figure_notes(request, data, own),
    )
    return Drawn(figure, rows, notes)
