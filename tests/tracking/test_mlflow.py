"""MLflow itself, with its folder store; where it is not installed, this is skipped."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tracoco.tracking.tracker import RECORD, TrackedRun, open_trackers, recorded_ids

mlflow = pytest.importorskip("mlflow", reason="the extra mlflow is not installed")


@pytest.fixture(autouse=True)
def _without_settings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No settings of MLflow but those of a test, and none left behind."""
    for name in [name for name in os.environ if name.startswith("MLFLOW_")]:
        monkeypatch.delenv(name)
    before = set(os.environ)
    yield
    for name in set(os.environ) - before:
        del os.environ[name]


@pytest.fixture
def run(tmp_path: Path) -> TrackedRun:
    (tmp_path / "runs" / "a").mkdir(parents=True)
    return TrackedRun(tmp_path / "runs" / "a", "heart", 0)


def client_of(folder: Path) -> Any:
    return mlflow.MlflowClient(tracking_uri=folder.as_uri())


def test_a_run_is_kept_in_a_folder_beside_it_and_resumed_under_its_id(
    run: TrackedRun, tmp_path: Path
) -> None:
    (tmp_path / "report.html").write_text("a report", encoding="utf-8")
    tracking = open_trackers(run, ["mlflow"])
    tracking.settings({"training.steps": 3, "data.crop": [16, 16, 8]} | _many(150))
    for step in range(2):
        tracking.metrics({"loss": 1.0 / (step + 1), "health/class_fractions/1": 0.5}, step)
    tracking.picture("case", np.zeros((4, 6, 3), np.uint8), 1)
    tracking.close("stopped")
    id_ = recorded_ids(run.folder)["mlflow"]
    client = client_of(run.folder.parent / "mlruns")
    assert client.get_run(id_).info.status == "KILLED"

    tracking = open_trackers(TrackedRun(run.folder, "heart", 1))
    tracking.settings({"training.steps": 4, "added": None})
    assert client.get_run(id_).info.status == "RUNNING"
    tracking.metrics({"loss": 0.5}, 1)
    tracking.artefact(tmp_path / "report.html")
    tracking.close("finished")

    kept = client.get_run(id_)
    assert (kept.info.status, kept.info.run_name) == ("FINISHED", "a")
    assert kept.data.params.items() >= {
        ("training.steps", "3"),
        ("data.crop", "[16, 16, 8]"),
        ("setting149", "149"),
        ("added", "null"),
    }
    history = [(each.step, each.value) for each in client.get_metric_history(id_, "loss")]
    assert sorted(set(history)) == [(0, 1.0), (1, 0.5)]
    assert client.get_experiment(kept.info.experiment_id).name == "heart"
    files = [item.path for item in client.list_artifacts(id_)]
    assert "report.html" in files
    assert client.list_artifacts(id_, "images")
    found = client.search_runs([kept.info.experiment_id])
    assert [each.info.run_id for each in found] == [id_]
    assert os.environ["MLFLOW_DISABLE_TELEMETRY"] == "true"


def _many(count: int) -> dict[str, int]:
    return {f"setting{number}": number for number in range(count)}


def test_settings_of_the_user_say_where_runs_go(
    run: TrackedRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "theirs").as_uri())
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "all hearts")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "false")
    open_trackers(run, ["mlflow"]).close("finished")
    client = client_of(tmp_path / "theirs")
    assert client.get_experiment_by_name("all hearts") is not None
    assert not (run.folder.parent / "mlruns").exists()
    assert os.environ["MLFLOW_DISABLE_TELEMETRY"] == "false"


def test_a_run_that_its_server_does_not_know_is_told_and_not_made_anew(
    run: TrackedRun, capsys: pytest.CaptureFixture[str]
) -> None:
    (run.folder / RECORD).write_text('{"mlflow": "0123456789abcdef0123456789abcdef"}')
    tracking = open_trackers(run, ["mlflow"])
    tracking.metrics({"loss": 1.0}, 0)
    tracking.close("finished")
    assert capsys.readouterr().err.count("warning: mlflow keeps nothing more of this run") == 1
    assert recorded_ids(run.folder) == {"mlflow": "0123456789abcdef0123456789abcdef"}


def test_metrics_are_sent_before_they_are_many(run: TrackedRun) -> None:
    tracking = open_trackers(run, ["mlflow"])
    for step in range(400):
        tracking.metrics({"a": 1.0, "b": 2.0, "c": 3.0}, step)
    client, id_ = client_of(run.folder.parent / "mlruns"), recorded_ids(run.folder)["mlflow"]
    assert len(client.get_metric_history(id_, "a")) >= 333
    tracking.close(None)
    assert len(client.get_metric_history(id_, "a")) == 400
    assert client.get_run(id_).info.status == "RUNNING"
