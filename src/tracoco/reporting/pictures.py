"""A picture of a case: three slices, with the true and the predicted outline over them."""

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from numpy.typing import NDArray

from tracoco.components import remove_small_components
from tracoco.errors import UserError
from tracoco.evaluation.evaluate import Pair, pair_files
from tracoco.reporting.run_record import ScoreSet
from tracoco.scans.reader import read_images, read_label
from tracoco.scans.scan import Spacing

Mask = NDArray[np.bool_]
Box = tuple[slice, ...]

MARGIN = 0.5
"""Seen on each side of the structure, as a share of its longest side."""


@dataclass(frozen=True, slots=True)
class View:
    """One way to cut a volume: axes of the picture, and what lies at its edges."""

    name: str
    across: int
    up: int
    through: int
    edges: tuple[str, str, str, str]
    """Left, right, bottom, top: a viewer faces the patient, whose right is on the left."""


VIEWS = (
    View("axial", across=0, up=1, through=2, edges=("R", "L", "P", "A")),
    View("coronal", across=0, up=2, through=1, edges=("R", "L", "I", "S")),
    View("sagittal", across=1, up=2, through=0, edges=("P", "A", "I", "S")),
)


def shown_views(shape: Sequence[int]) -> list[View]:
    """All three views of a volume, or the one view of an image."""
    return [view for view in VIEWS if min(shape[view.across], shape[view.up]) > 1]


def centre(mask: Mask, spacing_mm: Sequence[float]) -> tuple[int, ...]:
    """The mask's voxel nearest to its centre of mass: each slice through it shows the structure.

    The centre itself may lie outside, as in a ring or between two kidneys.
    """
    places = np.argwhere(mask)
    offsets = (places - places.mean(axis=0)) * np.asarray(spacing_mm)
    nearest = places[np.square(offsets).sum(axis=1).argmin()]
    return tuple(int(index) for index in nearest)


def surroundings(mask: Mask, spacing_mm: Sequence[float]) -> Box:
    """A box around the mask with room on each side, within the volume."""
    places = np.argwhere(mask)
    first, last = places.min(axis=0), places.max(axis=0) + 1
    room_mm = MARGIN * float(np.max((last - first) * np.asarray(spacing_mm)))
    room = np.ceil(room_mm / np.asarray(spacing_mm)).astype(int)
    return tuple(
        slice(max(0, int(low)), min(size, int(high)))
        for low, high, size in zip(first - room, last + room, mask.shape, strict=True)
    )


def cut(array: NDArray[Any], view: View, place: Sequence[int]) -> NDArray[Any]:
    """The slice of a volume [X, Y, Z] through `place`, as a picture [up, across]."""
    plane: NDArray[Any] = array.take(place[view.through], axis=view.through)
    return plane.T  # the axes that are left are in order, and `across` comes before `up`


@dataclass(frozen=True, slots=True, eq=False)
class CaseVolumes:
    """One case in memory, [X, Y, Z] all on one grid; the first channel of its image."""

    image: NDArray[np.float32]
    truth: NDArray[Any]
    prediction: NDArray[Any]
    spacing_mm: Spacing

    def within(self, box: Box) -> "CaseVolumes":
        """The part in a box."""
        parts = {name: getattr(self, name)[box] for name in ("image", "truth", "prediction")}
        return replace(self, **parts)


def read_case(scores: ScoreSet, case: str) -> CaseVolumes:
    """Read a case, or say which of its files is gone."""
    source = next((row.images for row in scores.manifest.rows if row.case == case), None)
    if source is None:
        raise UserError(f"{scores.folder} has no predictions.json that names the scan of '{case}'")
    pair = _label_files(scores, case)
    image, truth, found = read_images(source), read_label(pair.truth), read_label(pair.prediction)
    if not image.array.shape[1:] == truth.array.shape == found.array.shape:
        raise UserError(f"{source[0]} and the labels of '{case}' have different shapes")
    shown = remove_small_components(found.array) if scores.evaluation.protocol.cct else found.array
    return CaseVolumes(image.array[0], truth.array, shown, truth.spacing_mm)


def _label_files(scores: ScoreSet, case: str) -> Pair:
    truth = scores.evaluation.truth
    if truth is None:
        raise UserError(f"{scores.folder / 'scores.json'} does not say where the true labels are")
    pairs, _ = pair_files(scores.prediction, truth)
    pair = next((pair for pair in pairs if pair.case == case), None)
    if pair is None:
        raise UserError(f"{scores.prediction} and {truth} no longer both have '{case}'")
    return pair


TRUTH, PREDICTION = "#56b4e9", "#ffa600"
"""Blue and orange: told apart by readers with any of the common colour deficiencies."""
BACKGROUND, INK = "#0d0f12", "#b9c0ca"
WIDTH_INCHES, MOST_INCHES = 9.6, 4.4
TITLE_INCHES = 0.28
DOTS_PER_INCH = 110


def draw_case(case: CaseVolumes) -> str:
    """The picture as a `data:` address, so that the page needs no other file."""
    truth, prediction = case.truth != 0, case.prediction != 0
    if not (truth | prediction).any():
        raise UserError("neither the truth nor the prediction has a structure to show")
    box = surroundings(truth | prediction, case.spacing_mm)
    views, near = shown_views(truth.shape), case.within(box)
    place = centre(truth[box] if truth.any() else prediction[box], case.spacing_mm)
    sides = [size * mm for size, mm in zip(near.image.shape, case.spacing_mm, strict=True)]
    figure, panels = _panels(views, sides)
    for axes, view in zip(panels, views, strict=True):
        _draw_view(axes, near, view, place)
    return _as_address(figure)


def _panels(views: Sequence[View], sides: Sequence[float]) -> tuple[Figure, list[Axes]]:
    """One panel a view, all in the same scale, so that lengths can be compared."""
    widths = [sides[view.across] for view in views]
    tallest = max(sides[view.up] for view in views)
    height = min(MOST_INCHES, WIDTH_INCHES * tallest / sum(widths) + TITLE_INCHES)
    figure = Figure((WIDTH_INCHES, height), dpi=DOTS_PER_INCH, facecolor=BACKGROUND)
    grid = figure.add_gridspec(1, len(views), width_ratios=widths, wspace=0.03)
    grid.update(left=0.005, right=0.995, bottom=0.01, top=1 - TITLE_INCHES / height)
    return figure, [figure.add_subplot(grid[0, index]) for index in range(len(views))]


def _draw_view(axes: Axes, case: CaseVolumes, view: View, place: Sequence[int]) -> None:
    across, up = case.spacing_mm[view.across], case.spacing_mm[view.up]
    image = cut(case.image, view, place)
    size = (image.shape[1] * across, image.shape[0] * up)
    low, high = np.percentile(case.image, (1, 99))
    axes.imshow(
        image,
        cmap="gray",
        vmin=low,
        vmax=high,
        origin="lower",
        extent=(0.0, size[0], 0.0, size[1]),
        interpolation="bilinear",
    )
    outline(axes, cut(case.truth, view, place), (across, up), TRUTH, width=2.8)
    outline(axes, cut(case.prediction, view, place), (across, up), PREDICTION, width=1.4)
    right_first = view.edges[0] == "R"
    axes.set(xlim=(size[0], 0) if right_first else (0, size[0]), ylim=(0, size[1]))
    axes.set_axis_off()
    axes.set_anchor("N")
    axes.set_title(view.name, color=INK, fontsize=9, pad=4)
    _letter_edges(axes, view)


def outline(
    axes: Axes, label: NDArray[Any], spacing: tuple[float, float], colour: str, *, width: float
) -> None:
    """Outline each class; a border of background closes the line at the edge of the picture."""
    padded = np.pad(label, 1)
    rows, columns = padded.shape
    x, y = (np.arange(columns) - 0.5) * spacing[0], (np.arange(rows) - 0.5) * spacing[1]
    for value in np.unique(label[label != 0]):
        mask = (padded == value).astype(np.float32)
        axes.contour(x, y, mask, levels=[0.5], colors=[colour], linewidths=[width])


def _letter_edges(axes: Axes, view: View) -> None:
    """Say which way the patient lies."""
    places = ((0.02, 0.5), (0.98, 0.5), (0.5, 0.03), (0.5, 0.97))
    sides = (("left", "center"), ("right", "center"), ("center", "bottom"), ("center", "top"))
    for letter, (x, y), (across, up) in zip(view.edges, places, sides, strict=True):
        written = axes.annotate(letter, (x, y), xycoords="axes fraction", ha=across, va=up)
        written.set(color=INK, fontsize=8)
        written.set_path_effects([withStroke(linewidth=2, foreground=BACKGROUND)])


def _as_address(figure: Figure) -> str:
    content = io.BytesIO()
    figure.savefig(content, format="png", facecolor=BACKGROUND)
    return "data:image/png;base64," + base64.b64encode(content.getvalue()).decode()
