"""An exported MONAI bundle, run as MONAI's users run it, has nearly the labels of `predict`."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from samples import write_balls

from tracoco.api.deploy import export
from tracoco.api.predictions import predict
from tracoco.inference.monai_bundle import intensity_expression
from tracoco.presets import load_config
from tracoco.project.create import init_project
from tracoco.project.normalise import normalise
from tracoco.project.plan import Plan
from tracoco.project.prepare import prepare
from tracoco.scans.reader import read_label
from tracoco.training.train import train

SETTINGS = ["training.steps=40", "network.filters=8", "data.workers=0", "method.name=supervised"]


@pytest.mark.slow
@pytest.mark.parametrize("dimensions", [2, 3])
def test_monai_runs_the_bundle_with_nearly_the_same_labels(
    dimensions: Literal[2, 3], tmp_path: Path
) -> None:
    pytest.importorskip("monai")
    pytest.importorskip("ignite")
    data = write_balls(tmp_path / "data", labelled=4, unlabelled=1)
    project = init_project(data, tmp_path / "project", validation=1, dimensions=dimensions)
    prepare(project)
    crop = "[16, 16, 16]" if dimensions == 3 else "[16, 16]"
    run = project.runs_root / "run"
    train(project, load_config(None, [*SETTINGS, f"data.crop={crop}"]), run)
    bundle = export(run, format="monai-bundle", out=tmp_path / "bundle").path
    scans = tmp_path / "scans"
    scans.mkdir()
    for case in project.load_cases():
        shutil.copy(case.images[0], scans / f"{case.id}.nii.gz")
    words = ["--config_file", "configs/inference.json", "--bundle_root", "."]
    words += ["--image_dir", str(scans), "--output_dir", str(tmp_path / "labels")]
    command = [sys.executable, "-m", "monai.bundle", "run", *words]
    done = subprocess.run(command, cwd=bundle, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    equal = []
    for found in predict(run, scans, tmp_path / "own", progress=False):
        own = read_label(found.prediction).array
        other = read_label(tmp_path / "labels" / found.prediction.name).array
        assert own.any()
        equal.append(float((own == other).mean()))
    print(f"{dimensions}D: equal labels {min(equal):.5f} to {max(equal):.5f}")  # noqa: T201 - the figure
    assert min(equal) >= 0.99


@pytest.mark.parametrize(
    "values",
    [
        {"normalisation": "range"},
        {"normalisation": "range", "window": ((10.0, 60.0),)},
        {"normalisation": "zscore", "window": ((10.0, 60.0),)},
        {"normalisation": "zscore", "statistics_over": ("all",)},
        {"normalisation": "zscore", "statistics_over": ("above_background",)},
        {"normalisation": "zscore", "statistics_over": ("above_air",)},
    ],
)
def test_intensities_are_those_of_the_run(values: dict[str, object]) -> None:
    common = {
        "dimensions": 3,
        "channels": 1,
        "label_values": (0, 1),
        "class_names": ("background", "one"),
        "slice_axis": None,
        "spacing_mm": (1.0, 1.0, 1.0),
        "crop": (8, 8, 8),
    }
    plan = Plan.model_validate(common | values)
    channel = np.random.default_rng(0).gamma(2.0, 20.0, (9, 8, 7)).astype(np.float32)
    channel[:3] = 0
    found = eval(intensity_expression(plan, 0), {"np": np})(channel)  # noqa: S307 - as MONAI does
    np.testing.assert_allclose(found, normalise(channel, plan), atol=1e-5)
