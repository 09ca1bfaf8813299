"""The commands that the README has for one's own scans, run as they stand there."""

import re
import shlex
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from samples import write_ball, write_balls
from typer.testing import CliRunner

from tracoco.cli import app
from tracoco.project.folder import Project
from tracoco.project.store import Store
from tracoco.scans.reader import read_grid, read_label

README = Path(__file__).parents[1] / "README.md"
PART = README.read_text(encoding="utf-8").partition("## Your own scans")[2].partition("\n## ")[0]
COMMANDS = [line.strip() for line in PART.splitlines() if line.startswith("    tracoco ")]
PATH, AFTERWARDS = COMMANDS[:5], COMMANDS[5:]
SMALL = ("training.steps=2", "network.filters=4", "data.workers=0", "data.crop=[16, 16, 16]")


def run(line: str, *more: str) -> str:
    words = [*shlex.split(line.partition("#")[0])[1:], *more]
    result = CliRunner().invoke(app, words, catch_exceptions=False)
    assert result.exit_code == 0, f"{line}\n{result.output}"
    return result.stdout


def settings() -> list[str]:
    return [word for setting in SMALL for word in ("--set", setting)]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with `scans`, 6 of them labelled and 4 not, and two `new_scans`."""
    write_balls(tmp_path / "scans", labelled=6, unlabelled=4)
    for index in range(2):
        write_ball(tmp_path, f"new{index}", 90 + index, labelled=False)
    (tmp_path / "images").rename(tmp_path / "new_scans")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_five_commands_lead_to_a_prediction_and_three_go_on_from_there() -> None:
    assert [line.split()[1] for line in PATH] == ["init", "check", "prepare", "train", "predict"]
    assert [line.split()[1] for line in AFTERWARDS] == ["view", "next", "export"]


@pytest.mark.slow
def test_they_lead_from_scans_to_labels_on_the_scans_grid(here: Path) -> None:
    init, check, prepare, train, predict = PATH
    view, next_, export = AFTERWARDS
    shown = run(init, "--dry-run")
    assert re.search(r"case000 +images/case000.nii.gz +labels/case000.nii.gz", shown)
    assert not (here / "heart").exists()
    assert "4 labelled, 4 unlabelled, 2 validation, 0 test cases" in run(init)
    checked = run(check)
    assert "10 cases: 0 errors, 0 warnings" in checked
    assert "train: about" in checked
    assert "next: tracoco prepare heart" in checked
    assert "next: tracoco train heart" in run(prepare)
    for id_ in Project(here / "heart").load_splits().ids:
        assert isinstance(Store(here / "heart" / "store").case(id_).image(), np.memmap)
    run(train, *settings(), "--device", "cpu")
    assert "2 predictions in heart/runs/tracoco-seed0/predictions/new" in run(predict)
    for scan in sorted((here / "new_scans").iterdir()):
        label = here / "heart" / "runs" / "tracoco-seed0" / "predictions" / "new" / scan.name
        assert np.allclose(read_grid(label).affine, read_grid(scan).affine)
        assert read_label(label).array.shape == read_grid(scan).shape
    report = run("tracoco report heart/runs/tracoco-seed0")
    assert "report.html" in report
    alternatives = re.findall(r"--method \S+|--set \S+", train)
    assert len(alternatives) == 2
    words = [word for option in alternatives for word in option.replace(",", "").split()]
    run("tracoco train heart -o heart/runs/other", *words, *settings(), "--device", "cpu")
    run(view, "--out", "heart.html")
    assert (here / "heart.html").stat().st_size > 10_000
    assert "case00" in run(next_, "--device", "cpu")
    if find_spec("onnx") and find_spec("onnxscript") and find_spec("onnxruntime"):
        assert "onnx" in run(export)
