"""A short run that every test of this folder can predict with."""

from pathlib import Path

import pytest

from tracoco.presets import load_config
from tracoco.project.folder import Project
from tracoco.training.train import train

SETTINGS = ["training.steps=40", "data.crop=[16, 16, 16]", "network.filters=8", "data.workers=0"]


@pytest.fixture(scope="module")
def run(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short supervised run."""
    out = tmp_path_factory.mktemp("runs") / "run"
    train(project, load_config(None, ["method.name=supervised", *SETTINGS]), out)
    return out
