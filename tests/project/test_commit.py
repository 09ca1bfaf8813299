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
from tracoco.project.commit import (
    DECIDED,
    UNFINISHED,
    finish_replacing,
    read_together,
    replaced_together,
)
from tracoco.project.create import init_project
from tracoco.project.folder import Project
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
    shutil.rmtree(project.root / UNFINISHED, ignore_errors=True)
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


def test_the_next_one_removes_what_was_never_decided_on(tmp_path: Path) -> None:
    (tmp_path / UNFINISHED).mkdir()
    (tmp_path / UNFINISHED / "four").write_text("half")
    replace_all(tmp_path, "new")
    assert content(tmp_path) == dict.fromkeys(("one", "two", "three"), b"new")


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
