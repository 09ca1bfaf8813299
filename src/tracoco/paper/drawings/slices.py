"""Axial slices on a dark sheet, in millimetres, as the pictures of the report show them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from tracoco.geometry import Box
from tracoco.paper.drawings.style import DOTS_PER_INCH
from tracoco.report.pictures import BACKGROUND, outline
from tracoco.report.slices import VIEWS, cut

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
    across, up = sides(spacing_mm)
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
    outline(axes, cut(label, AXIAL, place), sides(spacing_mm), colour, width=width)


def frame(axes: Axes, box: Box, spacing_mm: Sequence[float], colour: str) -> None:
    """Draw a box of the scan around its part of the slice."""
    across, up = sides(spacing_mm)
    corner = (box.start[AXIAL.across] * across, box.start[AXIAL.up] * up)
    width, height = box.size[AXIAL.across] * across, box.size[AXIAL.up] * up
    drawn = Rectangle(corner, width, height, facecolor="none", edgecolor=colour, linewidth=1.8)
    axes.add_patch(drawn).set_clip_on(False)  # a padded crop reaches beyond the scan


def sides(spacing_mm: Sequence[float]) -> tuple[float, float]:
    """Width and height of a pixel of an axial slice."""
    return spacing_mm[AXIAL.across], spacing_mm[AXIAL.up]
