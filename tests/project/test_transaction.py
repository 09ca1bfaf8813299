"""Files of a project that are replaced together, and what is left of one who dies meanwhile."""

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tracoco.errors import UserError
from tracoco.project.create import init_project
from tracoco.project.folder import (
    DECIDED,
    UNFINISHED,
    Project,
    finish_replacing,
    read_together,
    remove_abandoned,
    replaced_together,
)
from tracoco.project.layouts import find_cases
from tracoco.project.update import apply_update, propose_update

WRITTEN = 4
"""Files of an update, each renamed once when it is written and once when it is put in place."""
RENAMES = WRITTEN + 1 + WRITTEN


def before_rename(
    monkeypatch: pytest.MonkeyPatch, number: int, happens: Callable[[], object]
) -> None:
    """Let something happen right before a rename, counted from 0."""
    replace, counter = Path.replace, count()

    def counted(self: Path, target: Path) -> Path:
        if next(counter) == number:
            happens()
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", counted)


def content(root: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in root.iterdir()}


def replace_all(root: Path, text: str) -> None:
    with replaced_together(root) as new:
        for name in ("one", "two", "three"):
            (new / name).write_text(text)


@pytest.fixture
def states(data: Path, tmp_path: Path) -> tuple[Project, dict[str, bytes], dict[str, bytes]]:
    """A project to which data was added since, its files, and those that it gets."""
    project = init_project(data, tmp_path / "project", validation=1)
    copy = Project(tmp_path / "copy")
    shutil.copytree(project.root, copy.root)
    shutil.copy(data / "labels" / "a.nii.gz", data / "labels" / "u.nii.gz")
    apply_update(copy, propose_update(copy, find_cases(data)))
    return project, content(project.root), content(copy.root)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nobody can be killed without a copy")
@pytest.mark.parametrize("number", range(RENAMES + 1))
def test_a_killed_update_leaves_the_old_project_or_the_new_one(
    number: int,
    states: tuple[Project, dict[str, bytes], dict[str, bytes]],
    data: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    project, old, new = states
    assert set(old) == set(new)
    assert sum(old[name] != new[name] for name in old) >= 2
    update = propose_update(project, find_cases(data))
    child = os.fork()
    if not child:  # it dies in any case: nothing of pytest may run in it
        before_rename(monkeypatch, number, lambda: os._exit(9))
        try:
            apply_update(project, update)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == (9 if number < RENAMES else 0)
    opened = Project(project.root)
    assert ("u" in opened.load_splits().labelled) == (number > WRITTEN)
    remove_abandoned(project.root)
    assert content(project.root) == (new if number > WRITTEN else old)


@pytest.mark.parametrize("existed", [False, True])
@pytest.mark.parametrize("number", range(11))
def test_nothing_is_left_of_a_new_project_that_fails(
    number: int,
    existed: bool,  # noqa: FBT001  # a case
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = tmp_path / "project"
    if existed:
        out.mkdir()

    def fail() -> None:
        raise KeyboardInterrupt

    before_rename(monkeypatch, number, fail)
    with pytest.raises(KeyboardInterrupt):
        init_project(data, out)
    assert out.exists() == existed
    assert not existed or not content(out)


def test_two_who_write_at_once_do_not_touch_the_files_of_the_other(tmp_path: Path) -> None:
    with replaced_together(tmp_path) as first:
        (first / "one").write_text("first")
        with replaced_together(tmp_path) as second:
            (second / "one").write_text("second")
        assert (tmp_path / "one").read_text() == "second"
    assert content(tmp_path) == {"one": b"first"}


def test_the_folder_to_write_into_is_open_to_whom_the_project_is(tmp_path: Path) -> None:
    tmp_path.chmod(0o750)
    with replaced_together(tmp_path) as new:
        assert new.stat().st_mode & 0o777 == 0o750


def test_what_a_killed_first_start_left_does_not_make_a_folder_taken(
    data: Path, tmp_path: Path
) -> None:
    out = tmp_path / "project"
    (out / f"{UNFINISHED}x7").mkdir(parents=True)
    (out / f"{UNFINISHED}x7" / "cases.json").write_text("half")
    project = init_project(data, out)
    assert set(content(out)) == {file.name for file in project.files}


def test_a_folder_with_anything_else_in_it_is_left_as_it_is(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "project"
    (out / f"{UNFINISHED}x7").mkdir(parents=True)
    (out / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match="exists already and is left as it is"):
        init_project(data, out)
    assert (out / "notes.txt").read_text() == "mine"


def test_several_may_put_files_in_place_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_all(tmp_path, "old")
    # The second move finds that all files were moved meanwhile.
    before_rename(monkeypatch, 2, lambda: finish_replacing(tmp_path))
    replace_all(tmp_path, "new")
    assert content(tmp_path) == dict.fromkeys(("one", "two", "three"), b"new")


@pytest.mark.parametrize("number", range(5))
def test_a_reader_never_sees_files_of_two_states(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_all(tmp_path, "old")
    seen: list[tuple[str, ...]] = []

    class Dead(Exception):  # noqa: N818  # a stand-in for a signal
        pass

    def die() -> None:
        raise Dead

    def read() -> tuple[str, ...]:
        first = (tmp_path / "one").read_text()
        if not seen:  # between the first file and the others, an update gets this far
            with monkeypatch.context() as patch, suppress(Dead):
                before_rename(patch, number, die)
                replace_all(tmp_path, "new")
        seen.append((first, (tmp_path / "two").read_text(), (tmp_path / "three").read_text()))
        return seen[-1]

    found = read_together(tmp_path, tmp_path / "one", read)
    assert found == (("old",) * 3 if number == 0 else ("new",) * 3)
    assert len(seen) == (1 if number == 0 else 2)


def test_who_may_not_write_is_told_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / DECIDED).mkdir()
    (tmp_path / DECIDED / "cases.json").write_text("[]")

    def refuse(*_: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(UserError, match=r"cannot be put in place \(Permission denied\); let its"):
        Project(tmp_path).load_cases()
