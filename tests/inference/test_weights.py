"""Averaged and raw weights of a run predict, and notes say which did."""

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tracoco.cli import app
from tracoco.errors import UserError
from tracoco.files import read_json
from tracoco.inference.predict import predict_scans
from tracoco.inference.predictor import Predictor
from tracoco.presets import load_config
from tracoco.project.folder import Project
from tracoco.training.train import train

SHORT = ["training.steps=12", "data.crop=[16, 16, 16]", "network.filters=4", "data.workers=0"]
MAPS = ["probability"]


@pytest.fixture(scope="module")
def averaged_run(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "averaged"
    settings = ["method.name=supervised", "training.ema_decay=0.9", *SHORT]
    train(project, load_config(None, settings), out, device="cpu")
    return out


def image(project: Project) -> Path:
    return project.load_cases()[0].images[0]


def levels(run: Path, project: Project, weights: Any) -> Any:
    predictor = Predictor.load(run, device="cpu", weights=weights)
    return predictor(image(project), maps=MAPS).maps["probability"].levels


def predict(run: Path, project: Project, out: Path, *words: str) -> None:
    command = ["predict", str(run), str(image(project)), str(out), "--device", "cpu", *words]
    result = CliRunner().invoke(app, command)
    if result.exception:
        raise result.exception


def test_a_run_with_averaged_weights_has_two_answers(averaged_run: Path, project: Project) -> None:
    averaged, raw = (levels(averaged_run, project, kind) for kind in ("averaged", "raw"))
    assert (averaged != raw).any()
    assert Predictor.load(averaged_run, device="cpu").averaged
    assert not Predictor.load(averaged_run, device="cpu", weights="raw").averaged


def test_a_run_without_has_one_answer(project: Project, tmp_path: Path) -> None:
    run = tmp_path / "run"
    settings = ["method.name=supervised", "training.ema_decay=0", *SHORT]
    train(project, load_config(None, settings), run, device="cpu")
    averaged, raw = (levels(run, project, kind) for kind in ("averaged", "raw"))
    assert (averaged == raw).all()
    predict(run, project, tmp_path / "out", "--weights", "raw")
    made = (tmp_path / "out" / "case000.nii.gz").stat().st_mtime_ns
    predict(run, project, tmp_path / "out", "--weights", "averaged")  # there already
    assert (tmp_path / "out" / "case000.nii.gz").stat().st_mtime_ns == made
    assert read_json(tmp_path / "out" / "predictions.json")["averaged"] is False


def test_notes_say_which_weights_were_used(
    averaged_run: Path, project: Project, tmp_path: Path
) -> None:
    for kind in ("raw", "averaged"):
        predict(averaged_run, project, tmp_path / kind, "--weights", kind)
        note = read_json(tmp_path / kind / "predictions.json")
        assert note["averaged"] is (kind == "averaged")


def test_predictions_of_both_do_not_mix(
    averaged_run: Path, project: Project, tmp_path: Path
) -> None:
    predict(averaged_run, project, tmp_path)
    other = project.load_cases()[1].images[0]
    with pytest.raises(UserError, match="made with other weights of the checkpoint last"):
        predict_scans(averaged_run, other, tmp_path, weights="raw", device="cpu")
