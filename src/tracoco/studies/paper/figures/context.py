"""The paper's first figure: two translated crops of a scan, and predictions in their overlap."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from numpy.typing import NDArray

from tracoco.data.crop import has_room, read_box
from tracoco.errors import UserError
from tracoco.evaluation.context_sensitivity import compare, draw_pair, predictions
from tracoco.geometry import Box, Size, whole
from tracoco.inference.predictor import Predictor
from tracoco.methods import METHODS
from tracoco.methods.method import evaluating
from tracoco.project.preprocess import is_structure
from tracoco.project.store import Store, StoredCase
from tracoco.runs.build import run_crop
from tracoco.slices import INK, cut
from tracoco.studies.paper.figure import Drawn, Row
from tracoco.studies.paper.figures.drawing_style import (
    AXIAL,
    brightness,
    dark_panels,
    frame,
    outline_slice,
    pixel_size,
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

FIRST, SECOND, SHARED = "#4f9dff", "#3ecf6b", "#ff5a4f"
"""Blue, green and red, as the paper draws the two crops and their overlap."""


@dataclass(frozen=True, slots=True, eq=False)
class ContextPrediction:
    """The labels that a method gives two crops, each of its crop's size."""

    title: str
    first: NDArray[Any]
    second: NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class _Scene:
    image: NDArray[np.floating]
    spacing_mm: Sequence[float]
    boxes: tuple[Box, Box]
    shared: Box
    level: int
    """The axial slice that is shown, counted in the scan."""

    @property
    def shown(self) -> tuple[float, float]:
        """One brightness for all panels."""
        return brightness(self.image)

    def place(self, box: Box) -> tuple[int, ...]:
        """A voxel of the shown slice, counted in a box."""
        return (0, 0, self.level - box.start[AXIAL.through])


def context_figure(
    image: NDArray[np.floating],
    boxes: tuple[Box, Box],
    predictions: Sequence[ContextPrediction],
    spacing_mm: Sequence[float],
) -> Figure:
    """The scan with both crops, then for each method its two predictions and where they differ.

    All panels show the axial slice of the overlap that has the most foreground in all predictions
    together; the percentage under a method counts the voxels of the whole overlap.

    Args:
        image: the scan [X, Y, Z].
        boxes: the first and the second crop.
        predictions: one a method.
        spacing_mm: side lengths of a voxel.
    """
    shared = boxes[0].intersect(boxes[1]).intersect(whole(image.shape))
    if shared.empty:
        raise UserError(f"the crops at {boxes[0].start} and {boxes[1].start} do not overlap")
    pairs = [_shared_predictions(prediction, boxes, shared) for prediction in predictions]
    foreground = np.sum([(label != 0).astype(int) for pair in pairs for label in pair], axis=0)
    level = shared.start[AXIAL.through] + int(foreground.sum(axis=(0, 1)).argmax())
    scene = _Scene(image, spacing_mm, boxes, shared, level)
    crop, inner = _ratio(boxes[0], spacing_mm), _ratio(shared, spacing_mm)
    figure, panels = dark_panels(len(predictions) + 1, (crop, crop, inner + 0.15))
    _show_scan(panels[0, 0], scene)
    _explain(panels[1, 0])
    panels[2, 0].set_axis_off()
    for column, prediction, pair in zip(panels.T[1:], predictions, pairs, strict=True):
        column[0].set_title(prediction.title, color=INK, fontsize=9)
        _show_prediction(column[0], scene, boxes[0], prediction.first, FIRST)
        _show_prediction(column[1], scene, boxes[1], prediction.second, SECOND)
        _show_difference(column[2], scene, pair[0] != pair[1])
    return figure


def _shared_predictions(
    prediction: ContextPrediction, boxes: tuple[Box, Box], shared: Box
) -> tuple[NDArray[Any], NDArray[Any]]:
    first, second = (shared.seen_from(box.start).slices for box in boxes)
    return prediction.first[first], prediction.second[second]


def _ratio(box: Box, spacing_mm: Sequence[float]) -> float:
    across, up = pixel_size(spacing_mm)
    return box.size[AXIAL.up] * up / (box.size[AXIAL.across] * across)


def _show_scan(axes: Axes, scene: _Scene) -> None:
    show_slice(axes, scene.image, (0, 0, scene.level), scene.spacing_mm, scene.shown)
    for box, colour in zip((*scene.boxes, scene.shared), (FIRST, SECOND, SHARED), strict=True):
        frame(axes, box, scene.spacing_mm, colour)
    axes.set_title("the scan", color=INK, fontsize=9)


def _show_prediction(axes: Axes, scene: _Scene, box: Box, label: NDArray[Any], colour: str) -> None:
    """A crop as the method saw it, its prediction, and the overlap."""
    place = scene.place(box)
    show_slice(axes, read_box(scene.image, box), place, scene.spacing_mm, scene.shown)
    outline_slice(axes, label, place, scene.spacing_mm, colour, width=1.8)
    frame(axes, scene.shared.seen_from(box.start), scene.spacing_mm, SHARED)


def _show_difference(axes: Axes, scene: _Scene, differing: NDArray[np.bool_]) -> None:
    place = scene.place(scene.shared)
    show_slice(axes, scene.image[scene.shared.slices], place, scene.spacing_mm, scene.shown)
    (picture,) = axes.images
    picture.set_alpha(0.55)
    left, right, bottom, top = picture.get_extent()
    axes.imshow(
        np.ma.masked_equal(cut(differing, AXIAL, place), 0),
        cmap=ListedColormap([SHARED]),
        origin="lower",
        extent=(left, right, bottom, top),
        interpolation="nearest",
    )
    fraction = f"{100 * differing.mean():.1f} % of the voxels differ"
    axes.text(
        0.5, -0.04, fraction, color=INK, fontsize=8, ha="center", va="top", transform=axes.transAxes
    )


def _explain(axes: Axes) -> None:
    """What the rows and colours are."""
    axes.set_axis_off()
    lines = (
        (FIRST, "1st row: prediction in the first crop"),
        (SECOND, "2nd row: prediction in the second"),
        (SHARED, "red frame: seen by both"),
        (SHARED, "3rd row: voxels of the frame\nthat get two predictions"),
    )
    for row, (colour, text) in enumerate(lines):
        axes.text(
            0.0,
            0.9 - 0.17 * row,
            text,
            color=colour,
            fontsize=8,
            va="top",
            transform=axes.transAxes,
        )


OWN = "la-8"
"""The paper names LA and not the number of labels; where context matters most they are few."""
SHOWN = ("supervised", "sassnet", "ua-mt", "cac", "tracoco")
"""Those of the paper's figure that there are, and what learns from labels alone."""
DRAWS, ENOUGH = 200, 0.5

Pair = tuple[Box, Box]


def context(request: PaperRequest, data: str) -> Drawn:
    """The predictions of each method in both crops, and how much they differ; seed 0."""
    request = replace(request, seeds=1)
    preset = preset_for(request, data, OWN)
    project, plan = runner_of(request, data).project, runner_of(request, data).project.load_plan()
    if plan.dimensions == 2:
        raise UserError(
            f"{project.root} is a project of slices, and this figure shows volumes; "
            "give a 3D project"
        )
    case = Store(project.store_root).case(project.test_cases()[0].id)
    runs = [FigureRun(name, preset, (f"method.name={name}",)) for name in SHOWN if name in METHODS]
    pair = choose_pair(case, run_crop(request.spec(preset, ()).config(0), plan))
    shown: list[ContextPrediction] = []
    rows: list[Row] = []
    for run, _, folder in trained_runs(request, data, runs):
        predictor = Predictor.load(folder, device=request.device)
        shown.append(ContextPrediction(run.title, *crop_labels(predictor, case, pair)))
        rows.append({"method": run.title, "scan": case.id} | _figures(predictor, case, pair))
    figure = context_figure(case.image()[0], pair, shown, case.spacing_mm)
    notes = (
        f"scan '{case.id}', the first test scan by name, at {pair[0].start} and {pair[1].start} "
        "on the network's grid",
        "in the overlap: disagreement is 100 - Dice of the two predictions, differing the voxels "
        "with two labels, both in percent",
        *figure_notes(request, data, OWN),
    )
    return Drawn(figure, rows, notes)


def choose_pair(case: StoredCase, crop: Size) -> Pair:
    """The first of the pairs drawn with seed 0 that shares at least half of the foreground.

    Where none does, since the structure is too large, the one that shares the most.
    """
    if not has_room(case.shape, crop):
        raise UserError(
            f"scan '{case.id}' of {case.shape} voxels has no room for two crops of {crop}; "
            "set a smaller data.crop"
        )
    foreground = is_structure(case.label())
    pairs = [draw_pair(case.id, case.shape, crop, 0, index) for index in range(DRAWS)]
    held = [_shared_voxels(foreground, pair) for pair in pairs]
    if not max(held):
        raise UserError(f"scan '{case.id}' has no foreground that two crops of {crop} share")
    enough = ENOUGH * np.count_nonzero(foreground)
    return next(
        (p for p, n in zip(pairs, held, strict=True) if n >= enough), pairs[np.argmax(held)]
    )


def _shared_voxels(mask: NDArray[np.bool_], pair: Pair) -> int:
    shared = pair[0].intersect(pair[1]).intersect(whole(mask.shape))
    return int(np.count_nonzero(mask[shared.slices]))


def crop_labels(
    predictor: Predictor, case: StoredCase, pair: Pair
) -> tuple[NDArray[Any], NDArray[Any]]:
    """The class indices that a method gives the voxels of each crop."""
    crops = torch.from_numpy(np.stack([read_box(case.image(), box) for box in pair]))
    with evaluating(predictor.method):
        found = predictor.method.predict(crops.to(predictor.device)).argmax(dim=1)
    first, second = found.cpu().numpy()
    return first, second


def _figures(predictor: Predictor, case: StoredCase, pair: Pair) -> Row:
    def predict(crops: torch.Tensor) -> torch.Tensor:
        return predictor.method.predict(crops.to(predictor.device))

    with evaluating(predictor.method):
        score = compare(*predictions(predict, np.array(case.image()), *pair))
    return {
        "disagreement": score.disagreement,
        "differing": score.differing,
        "published": None,
    }
