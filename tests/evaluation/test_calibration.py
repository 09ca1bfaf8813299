"""The expected calibration error, against what is worked out by hand."""

from pathlib import Path

import numpy as np
import pytest
from samples import make_project

from tracoco.api.predictions import predict
from tracoco.evaluation.calibration import calibrate
from tracoco.evaluation.evaluate import evaluate_predictions
from tracoco.evaluation.scores import read_evaluation
from tracoco.presets import load_config
from tracoco.reporting.page import write_report
from tracoco.training.train import train


def test_the_error_is_the_mean_distance_of_the_bins_from_what_they_say() -> None:
    # Foreground probabilities; the background has the rest.
    foreground = np.array([0.95, 0.95, 0.65, 0.65, 0.25, 0.005], np.float32).reshape(1, 2, 3)
    truth = np.array([5, 0, 5, 5, 0, 5]).reshape(1, 2, 3)
    found = calibrate([(np.stack([1 - foreground, foreground]), truth)], (0, 5))
    # Confidence 0.95 twice, one is right; 0.65 twice, both are right; 0.75 (of background), right.
    # The last voxel has less than 1 % of foreground: it does not count, though it is wrong.
    assert found.voxels == (0, 0, 0, 0, 0, 0, 2, 1, 0, 2)
    assert found.confidence[6:] == pytest.approx((0.65, 0.75, 0, 0.95))
    assert found.accuracy[6:] == pytest.approx((1, 1, 0, 0.5))
    # (2 x 0.35 + 1 x 0.25 + 2 x 0.45) / 5
    assert found.ece == pytest.approx(37.0, abs=1e-4)
    # (2 x -0.35 + 1 x -0.25 + 2 x 0.45) / 5
    assert found.overconfidence == pytest.approx(-1.0, abs=1e-4)


def test_cases_are_pooled_and_certainty_is_in_the_last_bin() -> None:
    sure = np.array([0.0, 1.0], np.float32).reshape(2, 1, 1, 1)
    right, wrong = np.ones((1, 1, 1), int), np.zeros((1, 1, 1), int)
    found = calibrate([(sure, right), (sure, right), (sure, wrong), (sure, right)], (0, 1))
    assert found.voxels[-1] == 4
    assert found.ece == found.overconfidence == pytest.approx(25.0)
    assert calibrate([], (0, 1)).ece is None


def test_saved_probabilities_are_scored_and_shown(tmp_path: Path) -> None:
    project = make_project(tmp_path, labelled=4, unlabelled=1, test=2)
    words = ["training.steps=4", "data.crop=[16, 16, 16]", "network.filters=4", "data.workers=0"]
    run = project.runs_root / "run"
    train(project, load_config(None, [*words, "method.name=supervised"]), run)
    out = run / "predictions" / "test"
    predict(run, project, out, maps=["probability"], progress=False)
    evaluation = evaluate_predictions(out, project.root)
    assert evaluation.calibration is not None
    assert sum(evaluation.calibration.voxels) > 0
    assert read_evaluation(out / "scores.json").calibration == evaluation.calibration
    assert "accuracy by confidence" in write_report(run).read_text(encoding="utf-8")
    predict(run, project, tmp_path / "plain", progress=False)
    assert evaluate_predictions(tmp_path / "plain", project.root).calibration is None
