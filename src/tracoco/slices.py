"""Slices of a volume as pictures: where they lie, what is outlined, and the PNG for a page."""

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.patheffects import withStroke
from numpy.typing import NDArray

Mask = NDArray[np.bool_]
Part = tuple[slice, ...]
"""A box as an index into a volume."""

MARGIN = 0.5
"""Seen on each side of the structure, as a fraction of its longest side."""


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


def surroundings(mask: Mask, spacing_mm: Sequence[float]) -> Part:
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
    spacing_mm: Sequence[float]

    def within(self, box: Part) -> "CaseVolumes":
        """The part in a box."""
        parts = {name: getattr(self, name)[box] for name in ("image", "truth", "prediction")}
        return replace(self, **parts)


TRUTH, PREDICTION = "#56b4e9", "#ffa600"
"""Blue and orange: told apart by readers with any of the common colour deficiencies."""
BACKGROUND, INK = "#0d0f12", "#b9c0ca"
DOTS_PER_INCH = 110
SIDE_INCHES, LEAST_INCHES = 3.2, 0.3
"""The longer side of the picture of a prediction, and the least of the other."""

Outline = tuple[NDArray[Any], str, float]
"""A label volume, and the colour and width of the line around each of its classes."""


def draw_slice(image: NDArray[Any], label: NDArray[Any], spacing_mm: Sequence[float]) -> str:
    """The slice through the middle of the structures and their outlines, as a `data:` address.

    Without a structure it is the middle slice of the image.
    """
    found = label != 0
    box = surroundings(found, spacing_mm) if found.any() else tuple(map(slice, label.shape))
    near, outlines = image[box], [(label[box], PREDICTION, 1.6)]
    middle = tuple(size // 2 for size in near.shape)
    place = centre(found[box], spacing_mm) if found.any() else middle
    view = shown_views(label.shape)[0]
    lengths_mm = [near.shape[axis] * spacing_mm[axis] for axis in (view.across, view.up)]
    width, height = (max(LEAST_INCHES, SIDE_INCHES * side / max(lengths_mm)) for side in lengths_mm)
    figure = Figure((width, height), dpi=DOTS_PER_INCH, facecolor=BACKGROUND)
    axes = figure.add_axes((0, 0, 1, 1))
    draw_view(axes, near, outlines, view, place, spacing_mm)
    axes.set_title("")
    return png_address(figure)


WIDTH_INCHES, MOST_INCHES = 9.6, 4.4
TITLE_INCHES = 0.28


def case_figure(case: CaseVolumes) -> Figure:
    """Slices of a case through its structures, with the true and the predicted outlines."""
    truth, prediction = case.truth != 0, case.prediction != 0
    box = surroundings(truth | prediction, case.spacing_mm)
    views, near = shown_views(truth.shape), case.within(box)
    place = centre(truth[box] if truth.any() else prediction[box], case.spacing_mm)
    lengths_mm = [size * mm for size, mm in zip(near.image.shape, case.spacing_mm, strict=True)]
    figure, panels = _panels(views, lengths_mm)
    outlines = [(near.truth, TRUTH, 2.8), (near.prediction, PREDICTION, 1.4)]
    for axes, view in zip(panels, views, strict=True):
        draw_view(axes, near.image, outlines, view, place, case.spacing_mm)
    return figure


def _panels(views: Sequence[View], lengths_mm: Sequence[float]) -> tuple[Figure, list[Axes]]:
    """One panel a view, all in the same scale, so that lengths can be compared."""
    widths = [lengths_mm[view.across] for view in views]
    tallest = max(lengths_mm[view.up] for view in views)
    height = min(MOST_INCHES, WIDTH_INCHES * tallest / sum(widths) + TITLE_INCHES)
    figure = Figure((WIDTH_INCHES, height), dpi=DOTS_PER_INCH, facecolor=BACKGROUND)
    grid = figure.add_gridspec(1, len(views), width_ratios=widths, wspace=0.03)
    grid.update(left=0.005, right=0.995, bottom=0.01, top=1 - TITLE_INCHES / height)
    return figure, [figure.add_subplot(grid[0, index]) for index in range(len(views))]


def draw_view(
    axes: Axes,
    image: NDArray[Any],
    outlines: Sequence[Outline],
    view: View,
    place: Sequence[int],
    spacing_mm: Sequence[float],
) -> None:
    """Draw the slice of an image through `place`, with outlines over it and its edges named."""
    across, up = spacing_mm[view.across], spacing_mm[view.up]
    plane = cut(image, view, place)
    size = (plane.shape[1] * across, plane.shape[0] * up)
    low, high = np.percentile(image, (1, 99))
    axes.imshow(
        plane,
        cmap="gray",
        vmin=low,
        vmax=high,
        origin="lower",
        extent=(0.0, size[0], 0.0, size[1]),
        interpolation="bilinear",
    )
    for label, colour, width in outlines:
        outline(axes, cut(label, view, place), (across, up), colour, width=width)
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
    alignments = (("left", "center"), ("right", "center"), ("center", "bottom"), ("center", "top"))
    for letter, (x, y), (across, up) in zip(view.edges, places, alignments, strict=True):
        written = axes.annotate(letter, (x, y), xycoords="axes fraction", ha=across, va=up)
        written.set(color=INK, fontsize=8)
        written.set_path_effects([withStroke(linewidth=2, foreground=BACKGROUND)])


def png_address(figure: Figure) -> str:
    """A figure as a `data:` address, so that a page needs no other file."""
    return "data:image/png;base64," + base64.b64encode(_png(figure).getvalue()).decode()


def figure_pixels(figure: Figure) -> NDArray[np.uint8]:
    """A figure in colours, [height, width, 3]."""
    return (255 * imread(_png(figure), format="png")[..., :3]).round().astype(np.uint8)


def _png(figure: Figure) -> io.BytesIO:
    content = io.BytesIO()
    figure.savefig(content, format="png", facecolor=BACKGROUND)
    content.seek(0)
    return content
