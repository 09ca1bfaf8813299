"""A label that may not be used is never opened, whichever command runs and whoever reads."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from samples import write_balls
from typer.testing import CliRunner

from tracoco.cli import app
from tracoco.project.folder import Project
from tracoco.scans import nifti
from tracoco.scans.scan import LabelScan

SMALL = ("training.steps=2", "network.filters=4", "data.workers=0", "data.crop=[16, 16, 16]")
OPENED: list[str] | None = None


def _note(event: str, arguments: tuple[object, ...]) -> None:
    if OPENED is not None and event == "open":
        OPENED.append(str(arguments[0]))


sys.addaudithook(_note)


@contextmanager
def opened() -> Iterator[list[str]]:
    """The files that this process opens meanwhile, however it does so."""
    global OPENED  # noqa: PLW0603 - a hook cannot be taken away, only told to be quiet
    files: list[str] = []
    OPENED = files
    try:
        yield files
    finally:
        OPENED = None


def tracoco(*arguments: object) -> str:
    result = CliRunner().invoke(app, list(map(str, arguments)), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def settings(*more: str) -> list[str]:
    return [word for setting in (*SMALL, *more) for word in ("--set", setting)]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Cases 000 to 004 with labels, 005 and 006 without."""
    return write_balls(tmp_path / "scans", labelled=5, unlabelled=2)


def refuse(monkeypatch: pytest.MonkeyPatch, hidden: set[str]) -> None:
    """A reader that fails for the labels of some cases."""
    read = nifti.read_label

    def read_label(path: Path) -> LabelScan:
        assert path.name.partition(".")[0] not in hidden, f"{path} was read"
        return read(path)

    monkeypatch.setattr(nifti, "read_label", read_label)


def go_through(project: Path) -> None:
    """All that is done with a project up to a trained and reported run."""
    tracoco("check", project)
    tracoco("plan", project, "--explain")
    tracoco("plan", project, "--redo")
    tracoco("prepare", project)
    tracoco("train", project, "--out", project / "run", "--device", "cpu", *settings())
    tracoco("report", project / "run")


@pytest.mark.slow
def test_hidden_labels_are_opened_by_no_command(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ("--hide-labels", 3, "--validation", 1)
    rows = json.loads(tracoco("init", data, "--dry-run", "--json", *options))["cases"]
    hidden = {row["id"] for row in rows if row["hidden"]}
    assert len(hidden) == 1
    refuse(monkeypatch, hidden)
    # Before the split is known, the first bytes of every file say whether it is DICOM; so here
    # the reader alone watches.
    tracoco("init", data, "-o", tmp_path / "p", *options)
    with opened() as files:
        go_through(tmp_path / "p")
    labels = {Path(file).name for file in files if "scans/labels" in file}
    assert labels == {f"case00{n}.nii.gz" for n in range(5)} - {f"{id_}.nii.gz" for id_ in hidden}


@pytest.mark.slow
def test_the_label_of_a_case_that_the_split_calls_unlabelled_is_opened_by_no_command(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracoco("init", data, "-o", tmp_path / "p", "--validation", 1)
    project = Project(tmp_path / "p")
    splits = json.loads(project.splits_file.read_text(encoding="utf-8"))
    hidden = splits["labelled"].pop()
    splits["unlabelled"].append(hidden)
    project.splits_file.write_text(json.dumps(splits), encoding="utf-8")
    refuse(monkeypatch, {hidden})
    with opened() as files:
        go_through(project.root)
    names = {Path(file).name for file in files if "scans/labels" in file}
    assert len(names) == 4
    assert f"{hidden}.nii.gz" not in names


def test_labels_that_a_run_leaves_aside_are_not_opened_in_the_store(
    data: Path, tmp_path: Path
) -> None:
    tracoco("init", data, "-o", tmp_path / "p", "--validation", 1)
    tracoco("prepare", tmp_path / "p")
    splits = Project(tmp_path / "p").load_splits()
    with opened() as files:
        tracoco(
            *("train", tmp_path / "p", "--out", tmp_path / "run", "--device", "cpu"),
            *settings("data.labelled=1"),
        )
    stored = {Path(file).name for file in files if "p/store" in file}
    assert f"{splits.labelled[0]}.label.npy" in stored
    for id_ in splits.labelled[1:]:
        assert f"{id_}.image.npy" in stored
        assert f"{id_}.label.npy" not in stored
        assert f"{id_}.foreground.npy" not in stored
