import os
import sys
from pathlib import Path

import pytest

from tracoco import errors
from tracoco.config import Config, parse_config
from tracoco.errors import UserError
from tracoco.project.folder import Project
from tracoco.runs import folder as run_folder
from tracoco.runs.facts import Facts
from tracoco.runs.folder import RunFolder


def create(folder: RunFolder, project: Project) -> None:
    folder.create(Config(), project.load_plan(), project.load_splits(), Facts(labelled_share=0.1))


def test_what_was_written_is_read_back(project: Project, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    assert not folder.begun
    create(folder, project)
    assert folder.begun
    assert folder.config() == Config()
    assert folder.plan() == project.load_plan()
    assert folder.splits() == project.load_splits()
    assert folder.facts().labelled_share == 0.1
    assert folder.facts().versions.keys() == {"tracoco", "torch", "numpy", "python", "git"}


@pytest.mark.skipif(os.name == "nt", reason="Windows has no sessions")
def test_a_signal_to_all_processes_of_a_command_does_not_reach_git(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git = tmp_path / "git"
    git.write_text(f"#!{sys.executable}\nimport os\nprint(os.getsid(0))\n", encoding="utf-8")
    git.chmod(0o755)
    monkeypatch.setattr("shutil.which", lambda _: str(git))
    folder = RunFolder(tmp_path / "run")
    create(folder, project)
    assert int(folder.facts().versions["git"]) != os.getsid(0)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no signals of this kind")
def test_a_git_that_a_signal_kills_is_asked_again(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git, asked = tmp_path / "git", tmp_path / "asked"
    script = f"[ -e {asked} ] && echo abc && exit\ntouch {asked}\nkill -USR2 $$"
    git.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    git.chmod(0o755)
    monkeypatch.setattr("shutil.which", lambda _: str(git))
    folder = RunFolder(tmp_path / "run")
    create(folder, project)
    assert folder.facts().versions["git"] == "abc"


def test_a_failure_half_way_leaves_no_folder(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, text: str) -> None:
        with errors.full_disk_named(path):
            raise OSError(28, text)

    monkeypatch.setattr(run_folder, "write_text", full)
    with pytest.raises(UserError, match="no space left"):
        create(RunFolder(tmp_path / "run"), project)
    assert not (tmp_path / "run").exists()


def test_a_failure_in_a_folder_that_was_there_leaves_what_was_in_it(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    (tmp_path / "mine.txt").touch()
    monkeypatch.setattr(run_folder, "write_splits", interrupted)
    with pytest.raises(KeyboardInterrupt):
        create(RunFolder(tmp_path), project)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_folder_in_use_is_refused_and_an_empty_one_is_not(tmp_path: Path) -> None:
    for resume in (False, True):
        RunFolder(tmp_path / "new").check_free(resume=resume)
        RunFolder(tmp_path).check_free(resume=resume)
    (tmp_path / "facts.json").touch()  # a start that was cut short
    RunFolder(tmp_path).check_free(resume=True)
    with pytest.raises(UserError, match="already exists; add --resume"):
        RunFolder(tmp_path).check_free(resume=False)
    (tmp_path / "thesis.txt").touch()
    with pytest.raises(UserError, match="is no run"):
        RunFolder(tmp_path).check_free(resume=True)
    with pytest.raises(UserError, match="is a file"):
        RunFolder(tmp_path / "thesis.txt").check_free(resume=False)


def test_a_folder_that_is_no_run_says_so(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"is not a run: it has no config\.yaml"):
        RunFolder(tmp_path).config()


def test_only_the_best_checkpoint_that_test_cases_chose_has_a_watermark(
    project: Project, tmp_path: Path
) -> None:
    marks = {}
    for select_on in ("validation", "test"):
        folder = RunFolder(tmp_path / select_on)
        config = parse_config({"training": {"select_on": select_on}}, "test")
        folder.create(config, project.load_plan(), project.load_splits(), Facts())
        marks[select_on] = [folder.watermark(checkpoint) for checkpoint in ("last", "best")]
    assert marks == {"validation": ["", ""], "test": ["", "best was chosen on the test cases"]}
