"""A picture of a case: three slices, with the true and the predicted outline over them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from tracoco.components import remove_small_components
from tracoco.errors import UserError
from tracoco.evaluation.evaluate import Pair, pair_files, read_pair
from tracoco.project.labels import LabelRule
from tracoco.reporting.run_record import ScoreSet
from tracoco.scans.reader import read_images
from tracoco.scans.scan import Spacing
from tracoco.slices import (
    BACKGROUND,
    DOTS_PER_INCH,
    PREDICTION,
    TRUTH,
    Part,
    View,
    centre,
    draw_view,
    png_address,
    shown_views,
    surroundings,
)


@dataclass(frozen=True, slots=True, eq=False)
class CaseVolumes:
    """One case in memory, [X, Y, Z] all on one grid; the first channel of its image."""

    image: NDArray[np.float32]
    truth: NDArray[Any]
    prediction: NDArray[Any]
    spacing_mm: Spacing

    def within(self, box: Part) -> "CaseVolumes":
        """The part in a box."""
        parts = {name: getattr(self, name)[box] for name in ("image", "truth", "prediction")}
        return replace(self, **parts)


def read_case(scores: ScoreSet, case: str) -> CaseVolumes:
    """Read a case, or say which of its files is gone."""
    source = next((row.images for row in scores.manifest.rows if row.case == case), None)
    if source is None:
        raise UserError(f"{scores.folder} has no predictions.json that names the scan of '{case}'")
    pair = _label_files(scores, case)
    rule = LabelRule(scores.manifest.ignore, scores.manifest.labels)
    image, (found, truth) = read_images(source), read_pair(pair, rule)
    if not image.array.shape[1:] == truth.array.shape == found.array.shape:
        raise UserError(f"{source[0]} and the labels of '{case}' have different shapes")
    shown = remove_small_components(found.array) if scores.evaluation.protocol.cct else found.array
    # What is not drawn has no outline.
    return CaseVolumes(image.array[0], np.maximum(truth.array, 0), shown, truth.spacing_mm)


def _label_files(scores: ScoreSet, case: str) -> Pair:
    truth = scores.evaluation.truth
    if truth is None:
        raise UserError(f"{scores.folder / 'scores.json'} does not say where the true labels are")
    pairs, _ = pair_files(scores.prediction, truth)
    pair = next((pair for pair in pairs if pair.case == case), None)
    if pair is None:
        raise UserError(f"{scores.prediction} and {truth} no longer both have '{case}'")
    return pair


WIDTH_INCHES, MOST_INCHES = 9.6, 4.4
TITLE_INCHES = 0.28


def draw_case(case: CaseVolumes) -> str:
    """The picture as a `data:` address, so that the page needs no other file."""
    truth, prediction = case.truth != 0, case.prediction != 0
    if not (truth | prediction).any():
        raise UserError("neither the truth nor the prediction has a structure to show")
    box = surroundings(truth | prediction, case.spacing_mm)
    views, near = shown_views(truth.shape), case.within(box)
    place = centre(truth[box] if truth.any() else prediction[box], case.spacing_mm)
    lengths_mm = [size * mm for size, mm in zip(near.image.shape, case.spacing_mm, strict=True)]
    figure, panels = _panels(views, lengths_mm)
    outlines = [(near.truth, TRUTH, 2.8), (near.prediction, PREDICTION, 1.4)]
    for axes, view in zip(panels, views, strict=True):
        draw_view(axes, near.image, outlines, view, place, case.spacing_mm)
    return png_address(figure)


def _panels(views: Sequence[View], lengths_mm: Sequence[float]) -> tuple[Figure, list[Axes]]:
    """One panel a view, all in the same scale, so that lengths can be compared."""
    widths = [lengths_mm[view.across] for view in views]
    tallest = max(lengths_mm[view.up] for view in views)
    height = min(MOST_INCHES, WIDTH_INCHES * tallest / sum(widths) + TITLE_INCHES)
    figure = Figure((WIDTH_INCHES, height), dpi=DOTS_PER_INCH, facecolor=BACKGROUND)
    grid = figure.add_gridspec(1, len(views), width_ratios=widths, wspace=0.03)
    grid.update(left=0.005, right=0.995, bottom=0.01, top=1 - TITLE_INCHES / height)
    return figure, [figure.add_subplot(grid[0, index]) for index in range(len(views))]
