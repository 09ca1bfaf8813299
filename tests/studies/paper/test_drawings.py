"""The drawings show what they were given, with units and names."""

import io

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.patches import StepPatch
from numpy.typing import NDArray

from tracoco.data.crop import read_box
from tracoco.errors import UserError
from tracoco.geometry import Box
from tracoco.studies.paper.figures.context import ContextPrediction, context_figure
from tracoco.studies.paper.figures.drawing_style import OWN, PUBLISHED
from tracoco.studies.paper.figures.qualitative import QualitativeColumn, draw_qualitative
from tracoco.studies.paper.figures.result_drawings import (
    LabelPoint,
    ThresholdPoint,
    by_label_count,
    threshold_curves,
)
from tracoco.studies.paper.figures.training_drawings import (
    DivergenceSeries,
    confidence_histograms,
    draw_divergence,
    draw_training_time,
)
from tracoco.studies.paper.surface_view import Viewpoint

FRONT = Viewpoint(0, 0)


def drawn(figure: Figure) -> bytes:
    """The file: it can be written, on any machine, without a screen."""
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=40)
    return content.getvalue()


def words(figure: Figure) -> set[str]:
    found = {text.get_text() for legend in figure.legends for text in legend.get_texts()}
    for axes in figure.axes:
        found |= {axes.get_title(), axes.get_title("left"), axes.get_xlabel(), axes.get_ylabel()}
        found |= {text.get_text() for text in (*axes.texts, *axes.get_yticklabels())}
    return found


def values(axes: Axes, name: str) -> list[tuple[float, float]]:
    """Places of the markers of a series that is drawn with bars."""
    bars = (each for each in axes.containers if isinstance(each, ErrorbarContainer))
    line = next(each for each in bars if each.get_label() == name).lines[0]
    return [(float(x), float(y)) for x, y in np.asarray(line.get_xydata())]


def test_scores_over_labels_are_a_row_a_data_set_and_a_line_a_series() -> None:
    figure = by_label_count(
        [
            LabelPoint("heart", 16, "supervised", 85.0, 1.0, hd95=9.0),
            LabelPoint("heart", 8, "supervised", 80.0, 2.0, hd95=12.0),
            LabelPoint("heart", 8, "tracoco", 89.0),
            LabelPoint("liver", 6, "tracoco", 70.0),
        ],
        distance_unit="mm",
    )
    dice, hd95, *liver = figure.axes
    assert len(liver) == 2
    assert values(dice, "supervised") == [(8, 80), (16, 85)]
    assert values(dice, "tracoco") == [(8, 89)]
    assert values(hd95, "supervised") == [(8, 12), (16, 9)]
    assert values(hd95, "tracoco") == []
    assert {"supervised", "tracoco", "heart", "liver", "HD95, mm", "Dice, %"} <= words(figure)
    assert drawn(figure).startswith(b"\x89PNG")


def test_histograms_are_in_percent_of_each_kind_of_voxel() -> None:
    background, foreground = np.array([3, 0, 0, 1]), np.array([0, 0, 1, 1])
    figure = confidence_histograms({"mse": (background, foreground), "crc": (foreground,) * 2})
    axes = figure.axes[0]
    kinds = [each for each in axes.patches if isinstance(each, StepPatch) and each.get_label()]
    bars = [list(each.get_data()[0]) for each in kinds]
    assert [sum(heights) for heights in bars] == [100, 100]
    assert bars == [[75, 0, 0, 25], [0, 0, 50, 50]]
    assert list(kinds[0].get_data()[1]) == [0, 0.25, 0.5, 0.75, 1]
    assert axes.get_yscale() == "log"
    assert {"mse", "crc", "true background", "true foreground"} <= words(figure)
    plain = confidence_histograms({"mse": (background, foreground)}, log=False)
    assert plain.axes[0].get_yscale() == "linear"
    assert drawn(figure) != drawn(plain)


def test_thresholds_are_joined_and_published_ones_are_grey_dots() -> None:
    ours = [ThresholdPoint(0.8, 85.0, 0.5), ThresholdPoint(0.6, 84.0, 0.5)]
    figure = threshold_curves(ours, [ThresholdPoint(0.1, 83.0)], [ThresholdPoint(0.65, 86.0)])
    gamma, beta = figure.axes
    assert values(gamma, "ours") == [(0.6, 84), (0.8, 85)]
    assert values(gamma, "published") == [(0.65, 86)]
    assert values(beta, "ours") == [(0.1, 83)]
    looks = {each.get_label(): each.lines[0] for each in gamma.containers}  # type: ignore[attr-defined]  # matplotlib types it as a base
    assert looks["published"].get_color() == PUBLISHED
    assert looks["published"].get_linewidth() == 0
    assert looks["ours"].get_linewidth() > 0
    assert drawn(figure)


def test_times_are_sorted_and_compared_with_supervised() -> None:
    figure = draw_training_time(
        [("cac", 3.0, 0.1), ("supervised", 0.5, None), ("tracoco", 1.25, 0.1)]
    )
    (axes,) = figure.axes
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names == ["supervised", "tracoco", "cac"]
    assert [text.get_text().split() for text in axes.texts] == [
        ["0.500", "s", "1.00", "x"],
        ["1.25", "s", "2.50", "x"],
        ["3.00", "s", "6.00", "x"],
    ]
    assert axes.get_ylim()[0] > axes.get_ylim()[1]  # the first on top
    assert axes.patches[1].get_facecolor() != axes.patches[2].get_facecolor()
    without = draw_training_time([("cac", 3.0, None)]).axes[0]
    assert [text.get_text() for text in without.texts] == ["3.00 s"]
    assert "supervised" not in without.get_xlabel()
    assert drawn(figure)


def test_divergence_is_shown_in_percent_of_the_voxels() -> None:
    figure = draw_divergence({"tracoco": DivergenceSeries([0.5, 1], [0.9, 0.96], [7000, 5500])})
    alike, apart = figure.axes
    assert np.asarray(alike.lines[0].get_xydata()).tolist() == [[50, 90], [100, 96]]
    assert np.asarray(apart.lines[0].get_xydata()).tolist() == [[50, 7000], [100, 5500]]
    assert alike.lines[0].get_color() == OWN["tracoco"]
    assert drawn(figure)


def cube(*start: int, value: int = 1, size: int = 6) -> NDArray[np.uint8]:
    label = np.zeros((20, 18, 12), dtype=np.uint8)
    label[tuple(slice(a, a + size) for a in start)] = value
    return label


def test_each_column_has_its_outline_and_dice() -> None:
    image = np.random.default_rng(0).random((20, 18, 12))
    truth = cube(4, 4, 3)
    columns = [
        QualitativeColumn("truth", truth),
        QualitativeColumn("shifted by half", cube(7, 4, 3)),
        QualitativeColumn("nothing", np.zeros_like(truth)),
    ]
    figure = draw_qualitative(columns, image, (1, 1, 2), FRONT)
    above = figure.axes[:3]
    assert [axes.get_title().split("\n")[1] for axes in above[1:]] == ["Dice 50.0 %", "Dice 0.0 %"]
    assert [len(axes.collections) for axes in above] == [1, 2, 1]  # outlines
    surfaces = [np.asarray(axes.images[0].get_array()) for axes in figure.axes[3:]]
    assert len({surface.shape for surface in surfaces}) == 1
    assert surfaces[0][..., 2].sum() > surfaces[0][..., 0].sum()  # the truth is blue
    assert surfaces[1][..., 2].sum() < surfaces[1][..., 0].sum()  # an answer is orange
    assert not surfaces[2].any()
    assert drawn(figure)


def test_a_class_keeps_its_colour_where_another_is_missing() -> None:
    both = cube(1, 4, 3) + cube(11, 4, 3, value=2)
    columns = [QualitativeColumn("truth", both), QualitativeColumn("one", both * (both == 2))]
    figure = draw_qualitative(columns, np.ones(both.shape), (1, 1, 1), FRONT)
    truth, one = (np.asarray(axes.images[0].get_array()) for axes in figure.axes[2:])
    alone = one[..., 3] == 1
    np.testing.assert_allclose(one[alone], truth[alone])


def test_a_case_without_any_structure_is_refused() -> None:
    empty = QualitativeColumn("truth", np.zeros((4, 4, 4)))
    with pytest.raises(UserError, match="no column has a structure"):
        draw_qualitative([empty], np.zeros((4, 4, 4)), (1, 1, 1))


def test_the_context_figure_counts_what_differs_in_the_overlap() -> None:
    image = np.random.default_rng(0).random((20, 18, 12))
    boxes = Box((-1, 2, 2), (12, 12, 8)), Box((5, 4, 2), (12, 12, 8))
    # The overlap is 6 x 10 x 8 voxels. The second crop calls 6 x 10 of them foreground, in one
    # slice; what it says of voxels outside of the overlap does not count.
    nothing, plane = np.zeros((12, 12, 8), dtype=int), np.zeros((12, 12, 8), dtype=int)
    plane[:, :, 3] = 1
    scan = cube(6, 5, 4, size=3)
    same = ContextPrediction("still", *(read_box(scan, box) for box in boxes))
    moved = ContextPrediction("moved", nothing, plane)
    figure = context_figure(image, boxes, [moved, same], (1, 1, 2))
    assert {"moved", "still", "12.5 % of the voxels differ", "0.0 % of the voxels differ"} <= words(
        figure
    )
    # The shown slice is the one with foreground, so all of the overlap is marked in it.
    marked = figure.axes[7].images[1].get_array()
    assert marked is not None
    assert np.ma.count(marked) == 60
    assert drawn(figure)


def test_crops_that_do_not_meet_are_refused() -> None:
    boxes = Box((0, 0, 0), (2, 2, 2)), Box((2, 0, 0), (2, 2, 2))
    with pytest.raises(UserError, match="do not overlap"):
        context_figure(np.zeros((4, 4, 4)), boxes, [], (1, 1, 1))
