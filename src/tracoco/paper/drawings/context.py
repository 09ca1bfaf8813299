"""The paper's first picture: two crops of one scan, and two answers about the voxels in both."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from numpy.typing import NDArray

from tracoco.data.crop import read_box
from tracoco.errors import UserError
from tracoco.geometry import Box, whole
from tracoco.paper.drawings.slices import (
    AXIAL,
    brightness,
    dark_panels,
    frame,
    outline_slice,
    show_slice,
    sides,
)
from tracoco.report.pictures import INK
from tracoco.report.slices import cut

FIRST, SECOND, SHARED = "#4f9dff", "#3ecf6b", "#ff5a4f"
"""Blue, green and red, as the paper draws the two crops and their overlap."""


@dataclass(frozen=True, slots=True, eq=False)
class ContextAnswer:
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
    answers: Sequence[ContextAnswer],
    spacing_mm: Sequence[float],
) -> Figure:
    """The scan with both crops, then for each method its two answers and where they differ.

    All panels show the axial slice of the overlap that has the most foreground in all answers
    together; the percentage under a method counts the voxels of the whole overlap.

    Args:
        image: the scan [X, Y, Z].
        boxes: the first and the second crop.
        answers: one a method.
        spacing_mm: side lengths of a voxel.
    """
    shared = boxes[0].intersect(boxes[1]).intersect(whole(image.shape))
    if shared.empty:
        raise UserError(f"the crops at {boxes[0].start} and {boxes[1].start} do not overlap")
    pairs = [_shared_answers(answer, boxes, shared) for answer in answers]
    foreground = np.sum([(label != 0).astype(int) for pair in pairs for label in pair], axis=0)
    level = shared.start[AXIAL.through] + int(foreground.sum(axis=(0, 1)).argmax())
    scene = _Scene(image, spacing_mm, boxes, shared, level)
    crop, inner = _ratio(boxes[0], spacing_mm), _ratio(shared, spacing_mm)
    figure, panels = dark_panels(len(answers) + 1, (crop, crop, inner + 0.15))
    _show_scan(panels[0, 0], scene)
    _explain(panels[1, 0])
    panels[2, 0].set_axis_off()
    for column, answer, pair in zip(panels.T[1:], answers, pairs, strict=True):
        column[0].set_title(answer.title, color=INK, fontsize=9)
        _show_answer(column[0], scene, boxes[0], answer.first, FIRST)
        _show_answer(column[1], scene, boxes[1], answer.second, SECOND)
        _show_difference(column[2], scene, pair[0] != pair[1])
    return figure


def _shared_answers(
    answer: ContextAnswer, boxes: tuple[Box, Box], shared: Box
) -> tuple[NDArray[Any], NDArray[Any]]:
    first, second = (shared.seen_from(box.start).slices for box in boxes)
    return answer.first[first], answer.second[second]


def _ratio(box: Box, spacing_mm: Sequence[float]) -> float:
    across, up = sides(spacing_mm)
    return box.size[AXIAL.up] * up / (box.size[AXIAL.across] * across)


def _show_scan(axes: Axes, scene: _Scene) -> None:
    show_slice(axes, scene.image, (0, 0, scene.level), scene.spacing_mm, scene.shown)
    for box, colour in zip((*scene.boxes, scene.shared), (FIRST, SECOND, SHARED), strict=True):
        frame(axes, box, scene.spacing_mm, colour)
    axes.set_title("the scan", color=INK, fontsize=9)


def _show_answer(axes: Axes, scene: _Scene, box: Box, label: NDArray[Any], colour: str) -> None:
    """A crop as the method saw it, its answer, and the overlap."""
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
    share = f"{100 * differing.mean():.1f} % of the voxels differ"
    axes.text(
        0.5, -0.04, share, color=INK, fontsize=8, ha="center", va="top", transform=axes.transAxes
    )


def _explain(axes: Axes) -> None:
    """What the rows and colours are."""
    axes.set_axis_off()
    lines = (
        (FIRST, "1st row: answer in the first crop"),
        (SECOND, "2nd row: answer in the second"),
        (SHARED, "red frame: seen by both"),
        (SHARED, "3rd row: voxels of the frame\nthat get two answers"),
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
