"""Charts of the pseudo-labels."""

from typing import TYPE_CHECKING

import pytest

from tracoco.reporting.pseudo_labels import health_charts
from tracoco.reporting.run_record import RunRecord

if TYPE_CHECKING:
    from reporting.conftest import Bench


def test_shares_gates_and_agreement_each_have_a_chart(bench: "Bench") -> None:
    share, gates, agreement, _ = health_charts(RunRecord.read(bench.run()))
    assert (share.latest, agreement.latest) == ("25.0 %", "95.0 %")
    assert {line.name for line in gates.lines} == {"likely", "unlikely"}


def test_the_labelled_share_is_a_dashed_line(bench: "Bench") -> None:
    share = health_charts(RunRecord.read(bench.run()))[0]
    (expected,) = (line for line in share.lines if line.style == "dashed")
    # The run's facts say that a fifth of the labelled voxels is foreground.
    assert expected.values.tolist() == pytest.approx([20, 20])
    assert expected.steps.tolist() == [0, 29]


def test_several_classes_are_shown_with_their_sum(bench: "Bench") -> None:
    health = {"share/0": 0.5, "share/1": 0.3, "share/2": 0.2}
    run = bench.run(
        log=[bench.record(0, health=health)], class_names=("background", "atrium", "wall")
    )
    share, _ = health_charts(RunRecord.read(run))
    shown = {line.name: line.values[0] for line in share.lines if line.style != "dashed"}
    assert shown == pytest.approx({"all foreground": 50, "atrium": 30, "wall": 20})


def test_collapsed_steps_are_shaded_in_every_chart(bench: "Bench") -> None:
    log = [
        bench.record(step, **({"collapsed": ["organ"]} if step >= 5 else {})) for step in range(8)
    ]
    assert all(
        chart.spans == [(5, 7)] for chart in health_charts(RunRecord.read(bench.run(log=log)))
    )


def test_a_method_without_pseudo_labels_has_no_charts(bench: "Bench") -> None:
    run = bench.run(log=[bench.record(0, health={})])
    assert health_charts(RunRecord.read(run)) == []


def test_an_unknown_figure_has_a_chart_of_its_own(bench: "Bench") -> None:
    run = bench.run(log=[bench.record(0, health={"certainty": 0.5})])
    assert health_charts(RunRecord.read(run))[0].title == "certainty"


def test_a_distance_is_shown_in_voxels_and_not_as_a_share(bench: "Bench") -> None:
    run = bench.run(log=[bench.record(0, health={"distance": 120.5})])
    distance, _ = health_charts(RunRecord.read(run))
    assert distance.latest == "120.5 voxels"
    assert distance.lines[0].values.tolist() == [120.5]


def test_the_shift_is_shown_for_methods_that_compare_crops_alone(bench: "Bench") -> None:
    (*_, shift) = health_charts(RunRecord.read(bench.run()))
    assert (shift.title, shift.latest) == ("mean shift", "20.0 %")
    other = health_charts(RunRecord.read(bench.run("other", method={"name": "cps"})))
    assert "mean shift" not in [chart.title for chart in other]
