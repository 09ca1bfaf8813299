"""Runs side by side."""

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import pytest

from tracoco.evaluation.scores import Protocol
from tracoco.files import read_json, write_json
from tracoco.project.splits import Splits
from tracoco.reporting.comparison import compare_runs

if TYPE_CHECKING:
    from reporting.conftest import Bench


def test_a_row_has_the_facts_and_the_scores_of_its_run(bench: "Bench") -> None:
    run = bench.run(seed=3)
    bench.scores(run)
    (row,) = compare_runs([run])
    assert (row.run, row.method, row.labelled, row.unlabelled) == (str(run), "tracoco", 2, 3)
    assert (row.steps, row.seed, row.test_set, row.checkpoint) == (30, 3, "test", "last")
    # Dice 100, 66.7, 0 and Jaccard 100, 50, 0; distances of the two that were found: 0 and 1 mm.
    assert (row.cases, row.missed, row.units, row.note) == (3, 1, "mm", "")
    assert row.dice == pytest.approx(55.56, abs=0.01)
    assert row.dice_sd == pytest.approx(50.92, abs=0.01)
    assert row.jaccard == pytest.approx(50)
    assert row.hd95 == pytest.approx(0.5)
    assert json.loads(json.dumps(asdict(row)))["asd"] == row.asd


def test_each_evaluated_folder_of_each_run_has_a_row(bench: "Bench") -> None:
    first, second, third = (bench.run(name) for name in ("a", "b", "c"))
    bench.scores(first)
    bench.scores(second)
    bench.scores(second, name="more")
    rows = compare_runs([first, second, third])
    assert [row.test_set for row in rows] == ["test", "test", "more", None]
    assert [row.note for row in rows] == ["", "", "", "not evaluated"]
    assert (rows[3].dice, rows[3].units, rows[3].steps) == (None, None, 30)


def test_other_cases_are_pointed_out(bench: "Bench") -> None:
    first, second = bench.run("a"), bench.run("b")
    bench.scores(first)
    cases = bench.cases()
    bench.scores(second, {"found": cases["found"], "new": cases["shifted"]})
    assert [row.note for row in compare_runs([first, second])] == [
        "",
        "other cases than the first row (1 in common)",
    ]


def test_other_conventions_are_pointed_out(bench: "Bench") -> None:
    first, second = bench.run("a"), bench.run("b")
    bench.scores(first)
    bench.scores(second, protocol=Protocol(units="voxel", empty="zero"))
    note = compare_runs([first, second])[1].note
    assert note == "distances in voxel, not mm; empty masks count as zero, not missed"


def test_other_classes_are_pointed_out(bench: "Bench") -> None:
    first, second = bench.run("a"), bench.run("b")
    bench.scores(first)
    path = bench.scores(second) / "scores.json"
    values = read_json(path)
    rows = values["rows"] + [row | {"label": 2, "name": "wall"} for row in values["rows"]]
    write_json(path, values | {"rows": rows})
    assert compare_runs([first, second])[1].note == "other classes than the first row"


def test_unfinished_runs_and_training_cases_are_pointed_out(bench: "Bench") -> None:
    log = [bench.record(step) for step in range(12)]
    run = bench.run(log=log, splits=Splits(("found",), (), (), ()))
    bench.scores(run)
    (row,) = compare_runs([run])
    assert row.note == (
        "not finished: step 12 of 30; "
        "1 of the scored cases have names of labelled training cases (found)"
    )


def test_conventions_that_flatter_are_said_of_every_row(bench: "Bench") -> None:
    paper = Protocol(units="voxel", empty="zero", cct=True)
    runs = [bench.run(name) for name in ("a", "b")]
    for run in runs:
        bench.scores(run, protocol=paper)
    said = "empty masks count as zero; small components were removed before scoring (--cct)"
    assert [row.note for row in compare_runs(runs)] == [said, said]


def test_removed_components_are_pointed_out_whenever_they_were_removed(bench: "Bench") -> None:
    first, second, third = (bench.run(name) for name in ("a", "b", "c"))
    bench.scores(first, cct=True)
    bench.scores(second)
    bench.scores(third, cct=True, protocol=Protocol(cct=True))
    assert [row.note for row in compare_runs([first, second, third])] == [
        "small components were removed when predicting (--cct)",
        "small components were not removed",
        "small components were removed when predicting and before scoring (--cct)",
    ]


def test_hidden_labels_and_a_watermark_are_pointed_out(bench: "Bench") -> None:
    run = bench.run(hidden_labels=6)
    bench.scores(run, watermark="best was chosen on the test cases")
    assert compare_runs([run])[0].note == "best was chosen on the test cases; 6 labels hidden"
    assert compare_runs([bench.run("b", hidden_labels=1)])[0].note == (
        "1 label hidden; not evaluated"
    )


def test_the_time_of_a_prediction_is_the_mean_of_the_cases(bench: "Bench") -> None:
    run = bench.run()
    path = bench.scores(run) / "predictions.json"
    assert compare_runs([run])[0].seconds is None
    note = read_json(path)
    for row, seconds in zip(note["rows"], (1.0, 2.0, 6.0), strict=True):
        row["seconds"] = seconds
    write_json(path, note)
    assert compare_runs([run])[0].seconds == 3.0
