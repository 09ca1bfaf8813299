"""One change of a project at a time."""

import errno
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tracoco.cli import app
from tracoco.errors import UserError
from tracoco.project.create import init_project
from tracoco.project.transaction import LOCK, UNFINISHED, only_writer

WRITER = """
import sys, time
from pathlib import Path
from tracoco.project.transaction import only_writer
with only_writer(Path(sys.argv[1])):
    print("mine", flush=True)
    time.sleep(60)
"""
locks = pytest.mark.skipif(sys.platform == "win32", reason="there are no locks of this kind")


@locks
def test_the_second_one_is_refused_until_the_first_has_ended(tmp_path: Path) -> None:
    with (
        only_writer(tmp_path),
        pytest.raises(UserError, match=r"another update of .* is under way"),
        only_writer(tmp_path),
    ):
        pass
    with only_writer(tmp_path):
        assert [file.name for file in tmp_path.iterdir()] == [LOCK]


@locks
def test_one_who_is_killed_holds_nothing_back(tmp_path: Path) -> None:
    words = [sys.executable, "-c", WRITER, str(tmp_path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "mine\n"
        with pytest.raises(UserError, match="under way"), only_writer(tmp_path):
            pass
        first.kill()
    with only_writer(tmp_path):
        pass


def test_without_locks_nobody_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)
    entered = False
    with only_writer(tmp_path), only_writer(tmp_path):
        entered = True
    assert entered


@locks
def test_a_disk_without_locks_refuses_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    entered = False
    with only_writer(tmp_path), only_writer(tmp_path):
        entered = True
    assert entered


def test_what_was_abandoned_is_removed(tmp_path: Path) -> None:
    (tmp_path / f"{UNFINISHED}x7").mkdir()
    (tmp_path / f"{UNFINISHED}x7" / "cases.json").write_text("half")
    with only_writer(tmp_path):
        assert not list(tmp_path.glob(f"{UNFINISHED}*"))


@locks
def test_an_update_is_refused_while_another_runs_and_a_dry_run_is_not(
    data: Path, tmp_path: Path
) -> None:
    project = init_project(data, tmp_path / "project")
    words = ["init", str(data), "-o", str(project.root), "--update"]
    with only_writer(project.root):
        refused = CliRunner().invoke(app, words)
        assert isinstance(refused.exception, UserError)
        assert "under way" in str(refused.exception)
        assert CliRunner().invoke(app, [*words, "--dry-run"]).exit_code == 0
    assert CliRunner().invoke(app, words).exit_code == 0
