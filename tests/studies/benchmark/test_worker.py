"""A worker does all runs that can be done, whatever becomes of one of them."""

import os
import signal
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from other_writer import in_another_thread
from small_grid import BROKEN, RESULT, SOUND, Untrained, untrained

from tracoco.errors import Stopped, UserError
from tracoco.lock_file import TEMPORARY
from tracoco.project.folder import Project
from tracoco.studies.benchmark.grid import RunSpec
from tracoco.studies.benchmark.results import Results, RunResult
from tracoco.studies.benchmark.runner import Scoring
from tracoco.studies.benchmark.worker_processes import work


def test_a_run_that_fails_does_not_keep_the_next_from_being_done(tmp_path: Path) -> None:
    runner, results = untrained(tmp_path), Results(tmp_path / "results")
    with pytest.raises(UserError) as caught:
        work([BROKEN, SOUND], {"balls": runner}, results)
    assert str(caught.value) == "balls-broken-2-labels-seed0: the loss is not finite"
    assert results.find(SOUND, runner.folder(SOUND.spec, 0)) == RESULT
    assert results.find(BROKEN, runner.folder(BROKEN.spec, 0)) is None


def test_a_stop_ends_the_work_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Untrained, "failure", Stopped("stopped", signal.SIGTERM))
    with pytest.raises(Stopped):
        work([BROKEN, SOUND], {"balls": untrained(tmp_path)}, Results(tmp_path / "results"))
    assert not (tmp_path / "results").exists()


def test_a_run_of_another_worker_is_passed_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runner, results = untrained(tmp_path), Results(tmp_path / "results")
    with in_another_thread(runner.folder(BROKEN.spec, 0)):
        work([BROKEN, SOUND], {"balls": runner}, results)
    assert "1 runs are in the hands of other workers" in capsys.readouterr().err
    assert results.path(SOUND).exists()


def test_a_run_whose_worker_dies_meanwhile_is_taken_over(tmp_path: Path) -> None:
    results, other = Results(tmp_path / "results"), ExitStack()

    class Dying(Untrained):
        """The other worker ends while the sound run is done."""

        def result(self, spec: RunSpec, seed: int, scoring: Scoring) -> RunResult:
            other.close()
            return super().result(spec, seed, scoring)

    runner = Dying(Project(tmp_path), "balls", tmp_path / "benchmark")
    held = replace(SOUND, seed=1)
    other.enter_context(in_another_thread(runner.folder(held.spec, 1)))
    work([held, SOUND], {"balls": runner}, results)
    assert results.path(held).exists()


def test_half_written_results_of_dead_workers_are_removed(tmp_path: Path) -> None:
    half = tmp_path / f"{TEMPORARY}0badcafe.12.34.00000000.sound.json"
    half.write_text("half", encoding="utf-8")
    os.utime(half, (1, 1))
    Results(tmp_path).keep(SOUND, Path("supervised-0123-seed0"), RESULT)
    assert not half.exists()


def test_a_result_of_other_settings_is_none(tmp_path: Path) -> None:
    results = Results(tmp_path)
    results.keep(SOUND, Path("supervised-0123-seed0"), RESULT)
    assert results.find(SOUND, Path("elsewhere/supervised-0123-seed0")) == RESULT
    assert results.find(SOUND, Path("supervised-4567-seed0")) is None
    results.path(SOUND).write_text('{"row": "sound", "run": "supervised-0123-seed0"}')
    with pytest.raises(UserError, match="another version"):
        results.find(SOUND, Path("supervised-0123-seed0"))
