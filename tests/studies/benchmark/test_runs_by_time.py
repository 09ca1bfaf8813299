"""Runs of a grid whose length is a time: they end at the steps that were measured, and say so."""

from pathlib import Path

import pytest
from samples import make_project

from tracoco.studies.benchmark.grid import GridRun, RunSpec
from tracoco.studies.benchmark.results import Results
from tracoco.studies.benchmark.runner import Runner, Scoring
from tracoco.studies.benchmark.state import Watch, progress_table
from tracoco.training import train as length
from tracoco.training.step_time import StepTime
from tracoco.training.trainer import Trainer

TIMED = RunSpec(
    None,
    (
        "network.filters=4",
        "data.crop=[16, 16, 8]",
        "data.workers=0",
        "training.steps=2",  # fewer than are measured: 0.1 minutes are 12 steps of half a second
        "training.minutes=0.1",
        "training.save_every=4",
    ),
)


def test_a_run_ends_at_the_steps_that_were_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make_project(tmp_path, test=1)
    runner = Runner(project, "balls", project.root / "grid", device="cpu")
    results, run = Results(tmp_path / "results"), GridRun("balls", "tracoco", None, 0, TIMED)
    watch, save, measured = Watch([run], {"balls": runner}, results), Trainer.save, list[int]()

    def killed(trainer: Trainer, name: str) -> None:
        save(trainer, name)
        if trainer.step == 8:
            raise KeyboardInterrupt

    def measure(*_: object) -> StepTime:
        measured.append(1)
        return StepTime(0.5)

    monkeypatch.setattr(length, "timed_steps", measure)
    (row,) = watch.rows()
    assert row.runs[0].seconds_left(99.0) == 6.0
    assert runner.steps(TIMED, 0) == 2
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "save", killed)
        with pytest.raises(KeyboardInterrupt):
            runner.result(TIMED, 0, Scoring())
    (row,) = watch.rows()
    assert [(state.steps, state.total) for state in row.runs] == [(8, 12)]
    assert row.runs[0].seconds_left(30.0) == 120.0
    assert "about" in str(progress_table([row], "Balls").title)
    result = runner.result(TIMED, 0, Scoring())
    assert (result.steps, len(measured)) == (12, 1)
    assert runner.steps(TIMED, 0) == 12
    results.keep(run, runner.folder(TIMED, 0), result)
    (row,) = watch.rows()
    assert [(state.steps, state.total) for state in row.runs] == [(12, 12)]
    assert runner.trained(TIMED, 0) == runner.folder(TIMED, 0)
    assert len(measured) == 1
