"""What all drawings share: colours and axes, and axial slices on a dark sheet, in millimetres."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FixedLocator, NullLocator, ScalarFormatter
from numpy.typing import NDArray

from tracoco.geometry import Box
from tracoco.slices import BACKGROUND, VIEWS, cut, outline

INK, MUTED, EDGE, GRID = "#1c2127", "#5d6773", "#c9cfd5", "#e8ebee"
PUBLISHED = "#8b949e"
"""Grey: what a paper states, beside what was measured here."""
LINES = ("#0072b2", "#d55e00", "#00825f", "#a3458a", "#8a6a00", "#4b4fb5")
OWN = {"supervised": "#59626d", "tracoco": "#0072b2"}
"""These two have the same colour in every drawing, whatever else is in it."""
MARKERS = "osD^vP"
DOTS_PER_INCH = 150


def new_figure(width: float, height: float) -> Figure:
    """A white sheet; sizes in inches."""
    return Figure((width, height), dpi=DOTS_PER_INCH, facecolor="white", layout="constrained")


def dress(axes: Axes, title: str, across: str, up: str) -> None:
    """Titles, units, and a light grid behind the data."""
    axes.set_title(title, fontsize=10, color=INK, loc="left", fontweight="bold")
    axes.set_xlabel(across, fontsize=9, color=MUTED)
    axes.set_ylabel(up, fontsize=9, color=MUTED)
    axes.tick_params(which="both", labelsize=8.5, color=EDGE, labelcolor=MUTED)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(EDGE)
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)


def series_styles(names: Sequence[str]) -> Mapping[str, tuple[str, str]]:
    """Colour and marker of each series, by its name where it is one of ours, else in order."""
    spare = iter(LINES[1:] * (len(names) // (len(LINES) - 1) + 1))
    colours = [OWN.get(name.lower()) or next(spare) for name in names]
    return {
        name: (colour, MARKERS[index % len(MARKERS)])
        for index, (name, colour) in enumerate(zip(names, colours, strict=True))
    }


def legend_below(figure: Figure, axes: Axes) -> None:
    """One legend for all panels, under them."""
    handles, names = axes.get_legend_handles_labels()
    figure.legend(
        handles,
        names,
        loc="outside lower center",
        ncols=min(len(names), 4),
        frameon=False,
        fontsize=9,
        labelcolor=INK,
    )


def tick_only(axes: Axes, values: Sequence[float]) -> None:
    """Ticks across at these values and nowhere else, written out in full."""
    axes.xaxis.set_major_locator(FixedLocator(sorted(set(values))))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(ScalarFormatter())


AXIAL = VIEWS[0]
COLUMN_INCHES, TITLE_INCHES, GAP_INCHES = 2.1, 0.42, 0.08


def dark_panels(columns: int, ratios: Sequence[float]) -> tuple[Figure, NDArray[Any]]:
    """A sheet with a row of panels for each ratio of height to width; axes [rows, columns]."""
    height = COLUMN_INCHES * sum(ratios) + TITLE_INCHES + GAP_INCHES * len(ratios)
    width = COLUMN_INCHES * columns
    figure = Figure((width, height), dpi=DOTS_PER_INCH, facecolor=BACKGROUND)
    grid = figure.add_gridspec(len(ratios), columns, height_ratios=ratios, wspace=0.04, hspace=0.05)
    edge = GAP_INCHES / 2
    grid.update(
        left=edge / width,
        right=1 - edge / width,
        bottom=edge / height,
        top=1 - TITLE_INCHES / height,
    )
    panels = grid.subplots(squeeze=False)
    return figure, panels


def largest_slice(label: NDArray[Any]) -> int:
    """The axial slice that cuts the most voxels of a structure."""
    return int(np.count_nonzero(label, axis=(AXIAL.across, AXIAL.up)).argmax())


def brightness(image: NDArray[Any]) -> tuple[float, float]:
    """Values that are drawn black and white."""
    low, high = np.percentile(image, (1, 99))
    return float(low), float(high)


def show_slice(
    axes: Axes,
    image: NDArray[Any],
    place: Sequence[int],
    spacing_mm: Sequence[float],
    shown: tuple[float, float],
) -> None:
    """The axial slice of a scan through `place`, with the patient's right on the left.

    `shown` is the `brightness` of the scan, so that all panels with parts of it are alike.
    """
    picture = cut(image, AXIAL, place)
    across, up = pixel_size(spacing_mm)
    width, height = picture.shape[1] * across, picture.shape[0] * up
    axes.imshow(
        picture,
        cmap="gray",
        vmin=shown[0],
        vmax=shown[1],
        origin="lower",
        extent=(0.0, width, 0.0, height),
        interpolation="bilinear",
    )
    axes.set(xlim=(width, 0), ylim=(0, height))
    axes.set_axis_off()
    axes.set_anchor("N")


def outline_slice(
    axes: Axes,
    label: NDArray[Any],
    place: Sequence[int],
    spacing_mm: Sequence[float],
    colour: str,
    *,
    width: float,
) -> None:
    """The outlines of a label map in the same slice."""
    outline(axes, cut(label, AXIAL, place), pixel_size(spacing_mm), colour, width=width)


def frame(axes: Axes, box: Box, spacing_mm: Sequence[float], colour: str) -> None:
    """Draw a box of the scan around its part of the slice."""
    across, up = pixel_size(spacing_mm)
    corner = (box.start[AXIAL.across] * across, box.start[AXIAL.up] * up)
    width, height = box.size[AXIAL.across] * across, box.size[AXIAL.up] * up
    drawn = Rectangle(corner, width, height, facecolor="none", edgecolor=colour, linewidth=1.8)
    axes.add_patch(drawn).set_clip_on(False)  # a padded crop reaches beyond the scan


def pixel_size(spacing_mm: Sequence[float]) -> tuple[float, float]:
    """Width and height of a pixel of an axial slice."""
    return spacing_mm[AXIAL.across], spacing_mm[AXIAL.up]
