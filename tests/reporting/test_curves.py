"""Which charts a log gives."""

from typing import TYPE_CHECKING

import pytest

from tracoco.reporting.charts import loss_charts, rate_chart, validation_chart

if TYPE_CHECKING:
    from reporting.conftest import Bench


def test_the_loss_comes_first_then_every_term(bench: "Bench") -> None:
    charts = loss_charts(bench.parsed(*map(bench.record, range(10))))
    assert [chart.title for chart in charts] == ["loss", "supervised", "crc"]
    # The last of ten values: 3 / 10, 2 / 10 and 1 / 10.
    assert [chart.latest for chart in charts] == ["0.3", "0.2", "0.1"]


def test_a_single_term_is_not_shown_twice(bench: "Bench") -> None:
    log = [bench.record(step, terms={"supervised": 1.0}, loss=1.0) for step in range(3)]
    assert [chart.title for chart in loss_charts(bench.parsed(*log))] == ["supervised"]


def test_a_term_that_begins_late_is_drawn_from_there(bench: "Bench") -> None:
    log = [bench.record(0), bench.record(1, terms={"late": 1.0})]
    (late,) = (chart for chart in loss_charts(bench.parsed(*log)) if chart.title == "late")
    assert late.lines[0].steps.tolist() == [1]


def test_validation_is_in_percent_and_names_its_best_step(bench: "Bench") -> None:
    log = [bench.record(step) for step in range(9)]
    for step, dice in ((2, 0.5), (5, 0.8), (8, 0.7)):
        log[step]["validation"] = {"dice": dice}
    chart = validation_chart(bench.parsed(*log))
    assert chart is not None
    assert chart.lines[0].values.tolist() == pytest.approx([50, 80, 70])
    assert chart.latest == "70.0 %"
    assert "best 80.0 % at step 5" in chart.about


def test_without_validation_there_is_no_chart(bench: "Bench") -> None:
    assert validation_chart(bench.parsed(bench.record(0))) is None


def test_rate(bench: "Bench") -> None:
    rate = rate_chart(bench.parsed(*map(bench.record, range(3))))
    assert rate is not None
    assert rate.lines[0].values[0] == 0.05


def test_an_empty_log_has_no_charts() -> None:
    assert (loss_charts([]), rate_chart([])) == ([], None)


def test_the_curve_of_test_cases_is_not_called_validation(bench: "Bench") -> None:
    chart = validation_chart(bench.parsed(bench.record(0), bench.record(1, test={"dice": 0.5})))
    assert chart is not None
    assert (chart.title, chart.latest) == ("test Dice", "50.0 %")
    assert "best was chosen on the test cases" in chart.about
