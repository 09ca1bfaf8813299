"""How far a grid is, read from logs and results again and again."""

import json
from pathlib import Path

import pytest
from small_grid import BROKEN, RESULT, SOUND, untrained

from tracoco.studies.benchmark.grid import RunSpec
from tracoco.studies.benchmark.results import Results
from tracoco.studies.benchmark.state import Watch, progress_table


def forbidden(*_: object) -> None:
    raise AssertionError("it was read already")


def test_steps_come_from_the_log_and_a_result_once_it_is_there(tmp_path: Path) -> None:
    runner, results = untrained(tmp_path), Results(tmp_path / "results")
    watch = Watch([BROKEN, SOUND], {"balls": runner}, results)
    folder = runner.folder(BROKEN.spec, 0)
    folder.mkdir(parents=True)
    lines = [json.dumps({"step": step, "seconds": 30.0}) for step in (0, 1)]
    (folder / "log.jsonl").write_text("\n".join([*lines, '{"step": 2, "sec']))
    results.keep(SOUND, runner.folder(SOUND.spec, 0), RESULT)
    begun, done = watch.rows()
    assert [(state.steps, state.total) for state in begun.runs] == [(2, 7)]
    assert (begun.done, done.done) == (False, True)
    # Five steps are left; one took 30 s here and 2 s in the run that is done.
    title = progress_table([begun, done], "Balls").title
    assert title == "Balls: 1 of 2 runs done, about 1 min of training left"


def test_what_was_read_once_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner, results = untrained(tmp_path), Results(tmp_path / "results")
    results.keep(SOUND, runner.folder(SOUND.spec, 0), RESULT)
    watch = Watch([SOUND], {"balls": runner}, results)
    rows = watch.rows()
    monkeypatch.setattr(RunSpec, "config", forbidden)
    monkeypatch.setattr(Results, "find", forbidden)
    assert watch.rows() == rows
