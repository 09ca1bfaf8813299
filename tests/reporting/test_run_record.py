"""What a run's folder tells."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tracoco.errors import UserError
from tracoco.files import read_json, write_json
from tracoco.project.splits import Splits
from tracoco.reporting.run_record import RunRecord

if TYPE_CHECKING:
    from reporting.conftest import Bench


def test_a_run_that_took_all_its_steps_is_finished(bench: "Bench") -> None:
    assert RunRecord.read(bench.run()).finished


@pytest.mark.parametrize("done", [0, 29])
def test_a_run_that_did_not_is_not(bench: "Bench", done: int) -> None:
    run = RunRecord.read(bench.run(log=[bench.record(step) for step in range(done)]))
    assert (run.steps_done, run.finished) == (done, False)


def test_collapsed_steps_are_joined_into_spans(bench: "Bench") -> None:
    collapsed = {2, 3, 4, 9}
    log = [
        bench.record(step, **({"collapsed": ["organ"]} if step in collapsed else {}))
        for step in range(12)
    ]
    assert RunRecord.read(bench.run(log=log)).collapsed_spans() == [(2, 4), (9, 9)]


def test_scores_of_training_cases_are_found_out(bench: "Bench") -> None:
    run = bench.run(splits=Splits(("found", "l1"), ("shifted",), (), ()))
    bench.scores(run)
    record = RunRecord.read(run)
    labelled, unlabelled = record.seen_before(record.scores[0])
    assert labelled == "1 of the scored cases have names of labelled training cases (found)"
    assert "unlabelled training cases (shifted)" in unlabelled


def test_validation_cases_matter_only_for_the_checkpoint_chosen_on_them(bench: "Bench") -> None:
    run = bench.run(splits=Splits(("l1",), (), ("found",), ()))
    note = bench.scores(run) / "predictions.json"
    record = RunRecord.read(run)
    assert record.seen_before(record.scores[0]) == []
    write_json(note, read_json(note) | {"checkpoint": "best"})
    record = RunRecord.read(run)
    assert "validation cases (found)" in record.seen_before(record.scores[0])[0]


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not a run"):
        RunRecord.read(tmp_path)


def test_validation_cases_matter_not_at_all_where_test_cases_chose(bench: "Bench") -> None:
    chosen_on_test = {"steps": 30, "select_on": "test"}
    run = bench.run(splits=Splits(("l1",), (), ("found",), ("t",)), training=chosen_on_test)
    bench.scores(run, checkpoint="best")
    record = RunRecord.read(run)
    assert record.seen_before(record.scores[0]) == []
    assert record.chosen_on_test
