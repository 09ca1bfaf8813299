"""The measure on a run: what it reads, what it leaves behind, what it prints."""

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray
from samples import write_scan
from typer.testing import CliRunner

from tracoco.cli import app
from tracoco.errors import UserError
from tracoco.evaluation import context_sensitivity as context_runs
from tracoco.evaluation.context_sensitivity import (
    ContextChoice,
    ContextScore,
    measure_context,
    read_context,
    score_volume,
)
from tracoco.inference.sliding_window import Predict
from tracoco.presets import load_config
from tracoco.project.folder import Project
from tracoco.reporting.page import write_report
from tracoco.training.train import train

Volume = NDArray[np.float32]

SETTINGS = ["training.steps=2", "data.crop=[16, 16, 16]", "network.filters=4", "data.workers=0"]


@pytest.fixture(scope="module")
def run(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two steps."""
    out = tmp_path_factory.mktemp("runs") / "run"
    train(
        project,
        load_config(None, ["method.name=supervised", "network.normalisation=instance", *SETTINGS]),
        out,
    )
    return out


@pytest.fixture
def scans(project: Project) -> Path:
    """The folder that the project's scans lie in."""
    return project.load_cases()[0].images[0].parent


def test_a_folder_is_measured_and_the_run_keeps_the_figures(run: Path, scans: Path) -> None:
    result = measure_context(run, scans, ContextChoice(shifts=2), device="cpu")
    assert result.crop == (16, 16, 16)
    assert [row.scan for row in result.rows] == [f"case{index:03d}" for index in range(8)]
    assert result.summary.pairs == 16
    assert result.summary.differing  # a network with a view wider than a voxel
    assert json.loads((run / "context.json").read_text(encoding="utf-8")) == result.to_json()
    assert read_context(run) == result
    again = measure_context(run, scans, ContextChoice(shifts=2), device="cpu")
    assert again == result
    one = measure_context(run, scans / "case003.nii.gz", ContextChoice(shifts=2), device="cpu")
    assert one.rows == (result.rows[3],)


def test_a_folder_of_the_fields_hdf5_files_is_measured_by_case(run: Path, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    for case in ("B", "A"):
        (tmp_path / case).mkdir()
        with h5py.File(tmp_path / case / "mri_norm2.h5", "w") as file:
            file["image"] = random.random((26, 24, 20), dtype=np.float32)
            file["label"] = np.zeros((26, 24, 20), np.uint8)
    result = measure_context(run, tmp_path, ContextChoice(shifts=1), device="cpu")
    assert [row.scan for row in result.rows] == ["A", "B"]
    assert result.summary.pairs == 2


def test_crops_are_drawn_where_the_scan_has_content(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    voxels = np.full((40, 30, 24), -2, dtype=np.float32)
    voxels[10:32, 5:25, 3:23] = np.random.default_rng(0).random((22, 20, 20))
    write_scan(tmp_path / "a.nii.gz", voxels)
    shapes = []

    def noted(predict: Predict, name: str, volume: Volume, *rest: Any, **more: Any) -> ContextScore:
        shapes.append(volume.shape)
        return score_volume(predict, name, volume, *rest, **more)

    monkeypatch.setattr(context_runs, "score_volume", noted)
    measure_context(run, tmp_path, ContextChoice(shifts=1), device="cpu")
    assert shapes == [(1, 22, 20, 20)]


def test_a_scan_with_other_channels_is_refused_before_anything_is_written(
    run: Path, tmp_path: Path
) -> None:
    write_scan(tmp_path / "two.nii.gz", np.zeros((20, 20, 20, 2), dtype=np.float32))
    (run / "context.json").unlink(missing_ok=True)
    with pytest.raises(UserError, match=r"two\.nii\.gz has 2 channels"):
        measure_context(run, tmp_path, device="cpu")
    assert not (run / "context.json").exists()


def test_the_command_prints_a_table_and_what_comes_next(run: Path, scans: Path) -> None:
    arguments = ["context", str(run), str(scans / "case000.nii.gz"), "--shifts", "2"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "case000" in result.stdout
    assert "mean of 1" in result.stdout
    assert f"next: tracoco report {run}" in result.stdout
    assert 'id="context"' in write_report(run).read_text(encoding="utf-8")
    as_json = CliRunner().invoke(app, [*arguments, "--json", "--seed", "3"])
    assert json.loads(as_json.stdout)["seed"] == 3
