"""Ways to cover scans are compared on trained runs, and shown in one table."""

from pathlib import Path

import pytest
from benchmarks.real.compare_windows import DENSE, Figures, compared, measured, ways
from samples import make_project

from tracoco.inference.predictor import Predictor
from tracoco.presets import load_config
from tracoco.project.store import Store
from tracoco.training.train import train

SHORT = ["method.name=supervised", "training.steps=2", "network.filters=4", "data.workers=0"]


@pytest.mark.parametrize("normalisation", ["batch", "instance"])
def test_every_way_is_measured(tmp_path: Path, normalisation: str) -> None:
    project = make_project(tmp_path / "made", labelled=4, unlabelled=1, test=1)
    changes = [*SHORT, f"network.normalisation={normalisation}", "data.crop=[16, 16, 16]"]
    train(project, load_config(None, changes), tmp_path / "run", device="cpu")
    predictor = Predictor.load(tmp_path / "run", device="cpu")
    (test,) = project.load_splits().test
    found = list(measured(predictor, [Store(project.store_root).case(test)]))
    assert [each.way for each in found] == [name for name, _ in ways(predictor)]
    windows = {each.way: each.windows for each in found}
    assert windows["crop, no overlap, gaussian"] < windows["crop, half, gaussian"]
    assert windows["crop, three quarters, uniform"] < windows[DENSE]
    assert windows.get("whole scan") == (1 if normalisation == "batch" else None)


def test_differences_are_from_dense_strides() -> None:
    text = compared([Figures(DENSE, 8, 80.0, 2.0), Figures("whole scan", 1, 79.5, 0.5)])
    assert "| whole scan | 1.0 | 79.50 | -0.50 | 0.500 |" in text
