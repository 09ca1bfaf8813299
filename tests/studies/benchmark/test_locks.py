"""A run that a worker has in hand is its own, until that worker ends in whatever way."""

import errno
import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tracoco.errors import UserError
from tracoco.studies.benchmark.worker_processes import check_locks, in_hand


def test_a_run_that_someone_has_in_hand_is_left_to_them(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with in_hand(folder) as mine:
        assert mine
        with in_hand(folder) as second:
            assert not second
    with in_hand(folder) as later:
        assert later


def test_the_lock_of_a_killed_worker_is_gone(tmp_path: Path) -> None:
    code = (
        "import pathlib, sys, time\n"
        "from tracoco.studies.benchmark.worker_processes import in_hand\n"
        "with in_hand(pathlib.Path(sys.argv[1])) as mine:\n"
        "    print(mine, flush=True); time.sleep(60)"
    )
    words = [sys.executable, "-c", code, str(tmp_path / "run")]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    assert process.stdout.readline() == "True\n"
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    with in_hand(tmp_path / "run") as mine:
        assert mine


def test_where_files_cannot_be_locked_one_worker_has_every_run_and_two_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks available")

    check_locks(tmp_path, jobs=2)
    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(UserError, match="use --jobs 1"):
        check_locks(tmp_path, jobs=2)
    check_locks(tmp_path, jobs=1)
    assert "only once at a time" in capsys.readouterr().err
    with in_hand(tmp_path / "run") as mine:
        assert mine


def test_another_failure_of_a_lock_is_not_taken_for_a_disk_without_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EIO, "the disk is broken")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(OSError, match="broken"), in_hand(tmp_path / "run"):
        pass
