"""Settings and commands at the bottom."""

import shlex
from typing import TYPE_CHECKING

from tracoco.reporting.details import (
    facts,
    plan,
    predict_commands,
    score_commands,
    settings,
    splits,
)
from tracoco.reporting.run_record import RunRecord

if TYPE_CHECKING:
    from reporting.conftest import Bench


def test_settings_are_grouped_and_complete(bench: "Bench") -> None:
    found = settings(RunRecord.read(bench.run(seed=7, method={"name": "tracoco", "noise": 0.1})))
    assert found["run"] == [("recipe", "common"), ("seed", "7")]
    assert dict(found["method"]) == {"name": "tracoco", "noise": "0.1"}
    assert dict(found["data"])["flips"] == "plan"
    assert dict(found["optimizer"])["clip_norm"] == "none"
    assert dict(found["training"])["steps"] == "30"


def test_data_and_versions(bench: "Bench") -> None:
    run = RunRecord.read(bench.run())
    assert dict(plan(run))["spacing_mm"] == "[1, 1, 2]"
    assert splits(run)["unlabelled"] == ["u1", "u2", "u3"]
    assert {"torch", "python", "git", "labelled_share"} <= dict(facts(run)).keys()


def test_commands_can_be_pasted_whatever_the_folder_is_called(bench: "Bench") -> None:
    run = RunRecord.read(bench.run("my run; rm"))
    (predict,) = predict_commands(run)
    assert shlex.split(predict.line) == ["tracoco", "predict", str(run.root), "SCANS", "LABELS"]
    assert [shlex.split(command.line)[1] for command in score_commands(run)] == [
        "predict",
        "evaluate",
        "report",
    ]


def test_the_best_checkpoint_is_offered_where_there_is_one(bench: "Bench") -> None:
    run = bench.run()
    (run / "best.pt").touch()
    assert predict_commands(RunRecord.read(run))[1].line.endswith("--checkpoint best")


def test_without_weights_there_is_no_command(bench: "Bench") -> None:
    run = bench.run()
    (run / "last.pt").unlink()
    assert predict_commands(RunRecord.read(run)) == []


def test_the_best_checkpoint_is_called_what_it_was_chosen_on(bench: "Bench") -> None:
    run = bench.run(training={"steps": 30, "select_on": "test"})
    (run / "best.pt").touch()
    assert predict_commands(RunRecord.read(run))[1].about.endswith("best on the test cases")
