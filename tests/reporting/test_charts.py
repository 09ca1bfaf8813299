"""Places of lines in the frame, worked out by hand."""

from dataclasses import replace

import numpy as np
import pytest

from tracoco.reporting.charts import BOTTOM, LEFT, RIGHT, TOP, Chart, Line, Style, draw


def chart(*values: float, style: Style = "line") -> Chart:
    steps = np.arange(len(values), dtype=float) * 10
    return Chart("loss", [Line("loss", steps, np.array(values), style)])


def test_the_first_step_is_left_and_the_largest_value_on_top() -> None:
    (stroke,) = draw(chart(4.0, 0.0, 2.0)).strokes
    middle_x, middle_y = (LEFT + RIGHT) / 2, (TOP + BOTTOM) / 2
    assert stroke.path == (f"M{LEFT:g},{TOP:g} {middle_x:g},{BOTTOM:g} {RIGHT:g},{middle_y:g}")


def test_axes_have_round_numbers_within_the_frame() -> None:
    drawing = draw(chart(4.0, 0.0, 2.0))
    assert [tick.text for tick in drawing.y_ticks] == ["0", "1", "2", "3", "4"]
    assert [tick.text for tick in drawing.x_ticks] == ["0", "5", "10", "15", "20"]
    assert (drawing.y_ticks[0].place, drawing.y_ticks[-1].place) == (BOTTOM, TOP)


def test_zero_is_in_the_frame_unless_told_otherwise() -> None:
    high = chart(96.0, 98.0)
    assert draw(high).y_ticks[0].text == "0"
    ticks = [float(tick.text) for tick in draw(replace(high, from_zero=False)).y_ticks]
    assert 96 <= min(ticks) <= max(ticks) <= 98


@pytest.mark.parametrize("values", [(0.0,), (5.0,), (0.0, 0.0)])
def test_a_flat_line_has_a_place(values: tuple[float, ...]) -> None:
    drawing = draw(chart(*values))
    assert "nan" not in drawing.strokes[0].path
    assert drawing.y_ticks


def test_points_are_marked_and_spans_shaded() -> None:
    drawing = draw(replace(chart(0.0, 1.0, 0.0, style="points"), spans=[(10, 20)]))
    assert len(drawing.strokes[0].dots) == 3
    assert drawing.shades == [((LEFT + RIGHT) / 2, (RIGHT - LEFT) / 2)]


def test_a_legend_names_lines_only_where_there_are_several() -> None:
    one = chart(0.0, 1.0)
    raw = replace(one.lines[0], style="raw")
    assert replace(one, lines=[raw, *one.lines]).legend == []
    assert len(replace(one, lines=[raw, *one.lines, *one.lines]).legend) == 2
