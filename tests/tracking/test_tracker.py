"""A run tells its trackers all that it should, and no fault of theirs reaches it."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from tracking.recorder import recorded
from typer.testing import CliRunner

import tracoco as tc
from tracoco.cli import app
from tracoco.config import recorded_settings
from tracoco.errors import UserError
from tracoco.presets import load_config
from tracoco.project.folder import Project
from tracoco.runs.log import metrics, read_log
from tracoco.slices import TRUTH
from tracoco.tracking.tracker import TRACKERS, Kind, TrackedRun, check_installed, open_trackers
from tracoco.training.distributed import Process
from tracoco.training.trainer import Trainer

SMALL = {
    "network.filters": 4,
    "data.workers": 0,
    "data.crop": [16, 16, 8],
    "training.steps": 4,
    "training.save_every": 2,
    "training.validate_every": 2,
}


def trained(project: Project, out: Path, *, resume: bool = False, **more: object) -> tc.Run:
    options = {"settings": SMALL, "device": "cpu", "progress": False, "resume": resume} | more
    return tc.train(project, out=out, **options)  # type: ignore[arg-type]  # handed on


def killed_after(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    save = Trainer.save

    def killed(trainer: Trainer, name: str) -> None:
        save(trainer, name)
        if trainer.step == step and name == "last.pt":
            raise KeyboardInterrupt

    monkeypatch.setattr(Trainer, "save", killed)


def test_a_tracker_gets_settings_metrics_and_the_end_of_a_run(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = recorded(monkeypatch)
    trained(project, tmp_path / "run", track="mlflow")
    ((run, id_),) = recorder.given("open")
    assert (run, id_) == (TrackedRun(tmp_path / "run", project.root.name, 0), None)
    (settings,) = recorder.given("settings")
    assert settings["training.steps"] == 4
    assert settings["method.name"] == "tracoco"
    assert settings["data.labelled_batch"] >= 1  # the plan's: settings are resolved
    log = read_log(tmp_path / "run" / "log.jsonl")
    assert recorder.given("metrics") == [(each.step, metrics(each)) for each in log]
    assert [step for step, values in recorder.given("metrics") if "validation/dice" in values] == [
        1,
        3,
    ]
    assert recorder.given("picture") == []  # of patients, and nobody asked for them
    assert recorder.calls[-1] == ("close", "finished")


def test_resumed_it_goes_on_with_the_same_run_also_if_it_is_not_named_again(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    recorder = recorded(monkeypatch, id="mine")
    with monkeypatch.context() as patch:
        killed_after(patch, 2)
        with pytest.raises(KeyboardInterrupt):
            trained(project, out, track=["mlflow"])
    assert recorder.calls[-1] == ("close", "failed")
    assert json.loads((out / "tracking.json").read_text(encoding="utf-8")) == {"mlflow": "mine"}
    again = recorded(monkeypatch, id="mine")
    trained(project, out, resume=True)
    ((run, id_),) = again.given("open")
    assert (run.step, id_) == (2, "mine")
    assert [step for step, _ in again.given("metrics")] == [2, 3]
    assert again.calls[-1] == ("close", "finished")


@pytest.mark.parametrize("call", ["open", "settings", "metrics", "close"])
def test_a_tracker_that_fails_is_told_of_once_and_the_run_is_the_same(
    project: Project,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    call: str,
) -> None:
    broken, sound = recorded(monkeypatch, breaks_at=call), recorded(monkeypatch, "wandb")
    run = trained(project, tmp_path / "run", track="mlflow,wandb")
    assert (run.steps, run.signal) == (4, 0)
    assert len(broken.given(call)) == 1
    assert broken.calls[-1][0] == call  # nothing after that
    assert len(sound.given("metrics")) == 4
    assert sound.calls[-1] == ("close", "finished")
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "mlflow" in line]
    assert line.startswith("warning: mlflow")
    assert "no route to host" in line


def test_only_the_process_that_leads_opens_trackers(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = recorded(monkeypatch)
    monkeypatch.setattr(Process, "leads", False)
    assert trained(project, tmp_path / "run", track="mlflow").steps == 4
    assert recorder.calls == []


def test_a_missing_extra_is_told_before_anything_is_made(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("mlflow", "wandb"):
        monkeypatch.setitem(sys.modules, name, None)  # as if not there
    words = ["train", project.root, "--out", tmp_path / "run", "--track", "mlflow,wandb"]
    result = CliRunner().invoke(app, list(map(str, words)))
    assert isinstance(result.exception, UserError)
    assert "pip install 'tracoco[mlflow,wandb]'" in str(result.exception)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_the_name_of_a_package_is_not_that_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W&B writes a folder `wandb` into the folder that it is used in."""
    (tmp_path / "no_such_tracker").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(TRACKERS, "wandb", Kind("no_such_tracker", "none:None"))
    with pytest.raises(UserError, match="wandb"):
        check_installed(["wandb"])


def test_an_unknown_tracker_is_refused_with_those_that_there_are(project: Project) -> None:
    with pytest.raises(UserError, match=r"'neptune'.*there are mlflow, tensorboard, wandb"):
        tc.train(project, track="neptune")


def test_who_is_told_of_a_run_does_not_change_what_it_is() -> None:
    tracked = load_config(None, ["tracking.trackers=[mlflow, wandb]", "tracking.pictures=true"])
    assert recorded_settings(tracked) == recorded_settings(load_config(None, []))


@pytest.mark.parametrize("text", ["[]", '{"mlflow": 3}', "{"])
def test_a_damaged_record_of_trackers_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "tracking.json").write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=r"tracking\.json"):
        open_trackers(TrackedRun(tmp_path, "heart", 0))


def test_pictures_of_a_validation_case_are_given_where_they_are_asked_for(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = recorded(monkeypatch)
    settings = SMALL | {"tracking.pictures": True}
    trained(project, tmp_path / "run", track="mlflow", settings=settings)
    assert [(name, step) for name, _, step in recorder.given("picture")] == [
        ("validation/picture", 1),
        ("validation/picture", 3),
    ]
    _, picture, _ = recorder.given("picture")[0]
    assert (picture.dtype, picture.shape[2]) == (np.uint8, 3)
    blue = [int(TRUTH[place : place + 2], 16) for place in (1, 3, 5)]
    assert (picture == blue).all(axis=2).any()  # the outline of what is to be found


@pytest.mark.parametrize("pictures", [False, True])
def test_the_report_is_given_with_pictures_only_where_they_are_asked_for(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, pictures: bool
) -> None:
    recorder, out = recorded(monkeypatch), tmp_path / "run"
    settings = SMALL | {"training.steps": 2, "tracking.pictures": pictures}
    run = trained(project, out, track="mlflow", settings=settings)
    labels = out / "predictions" / "validation"
    run.predict(project, labels, part="validation", device="cpu", progress=False)
    tc.evaluate(labels, project)
    page = tc.report(run).read_text(encoding="utf-8")
    assert page.count("<img") == 1  # in the folder of the run it has its pictures in any case
    ((name, text),) = recorder.given("artefact")
    assert name == "report.html"
    assert text.count("<img") == int(pictures)
    assert ("<iframe" in text) == pictures  # the viewer shows voxels
    assert "Cases of validation" in text
    assert recorder.given("open")[-1][1] == "first"
    assert recorder.calls[-1] == ("close", None)


def test_the_report_of_a_run_that_nobody_tracks_is_given_to_nobody(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = trained(project, tmp_path / "run", settings=SMALL | {"training.steps": 1})
    recorder = recorded(monkeypatch, "tensorboard")
    tc.report(run)
    assert recorder.calls == []
