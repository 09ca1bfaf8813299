"""Weights & Biases itself, offline; where it is not installed, this is skipped."""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tracoco.tracking import wandb as module
from tracoco.tracking.tracker import TrackedRun, open_trackers, recorded_ids

wandb = pytest.importorskip("wandb", reason="the extra wandb is not installed")


@pytest.fixture(autouse=True)
def _without_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No settings of W&B but those of a test, and no files in the home of the user."""
    for name in ("WANDB_MODE", "WANDB_PROJECT", "WANDB_DIR", "WANDB_NAME", "WANDB_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")
    for name in ("CONFIG", "CACHE", "DATA"):
        monkeypatch.setenv(f"WANDB_{name}_DIR", str(tmp_path / "home" / name.lower()))
    yield
    wandb.teardown()


@pytest.fixture
def run(tmp_path: Path) -> TrackedRun:
    (tmp_path / "runs" / "a").mkdir(parents=True)
    return TrackedRun(tmp_path / "runs" / "a", "heart/left", 0)


def test_a_run_is_kept_offline_in_its_folder_and_resumed_under_its_id(
    run: TrackedRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "name-of-this-machine")
    (tmp_path / "report.html").write_text("a report", encoding="utf-8")
    for steps, project in (((0, 1), run.project), ((1, 2), "renamed")):
        tracking = open_trackers(TrackedRun(run.folder, project, steps[0]), ["wandb"])
        tracking.settings({"training.steps": 3, "data.crop": [16, 16, 8]})
        for step in steps:
            tracking.metrics({"loss": 1.0 / (step + 1)}, step)
        tracking.picture("case", np.zeros((4, 6, 3), np.uint8), steps[1])
        tracking.artefact(tmp_path / "report.html")
        tracking.close("stopped")
    wandb.teardown()  # as at the end of a process: what is left is written
    project, id_ = recorded_ids(run.folder)["wandb"].split("/")
    assert project == "heart-left"  # a name that W&B takes
    kept = sorted((run.folder / "wandb").glob("offline-run-*"))
    assert {folder.name.rpartition("-")[2] for folder in kept} == {id_}
    for folder in kept:
        content = (folder / f"run-{id_}.wandb").read_bytes()
        assert b"training.steps" in content
        assert b"loss" in content
        assert b"name-of-this-machine" not in content
        assert project.encode() in content
        assert (folder / "files" / "report.html").read_text(encoding="utf-8") == "a report"
        assert list((folder / "files").rglob("case*.png"))
        assert not list(folder.rglob("wandb-metadata.json"))
        assert not list(folder.rglob("requirements.txt"))


@pytest.mark.parametrize("way", ["environment", "file", "logged in alone"])
def test_only_the_settings_of_the_user_make_it_online(
    run: TrackedRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    if way == "environment":
        monkeypatch.setenv("WANDB_MODE", "online")
    elif way == "file":
        (tmp_path / "home" / "config").mkdir(parents=True)
        text = "[default]\nmode = online\nproject = theirs\n"
        (tmp_path / "home" / "config" / "settings").write_text(text, encoding="utf-8")
    else:
        monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    asked: dict[str, Any] = {}

    def init(**options: Any) -> Any:
        asked.update(options)
        raise OSError("not in a test")

    monkeypatch.setattr(wandb, "init", init)
    open_trackers(run, ["wandb"])
    assert asked["mode"] == ("offline" if way == "logged in alone" else "online")
    assert asked["project"] == ("theirs" if way == "file" else "heart-left")


def test_what_the_user_asks_to_be_collected_is_collected(
    run: TrackedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_CONSOLE", "wrap")
    asked: dict[str, Any] = {}

    def init(**options: Any) -> Any:
        asked.update(options)
        raise OSError("not in a test")

    monkeypatch.setattr(wandb, "init", init)
    open_trackers(run, ["wandb"])
    chosen = asked["settings"].model_fields_set
    assert chosen == module.NOT_COLLECTED.keys() - {"console"} | {"host"}
