"""An exported MONAI bundle, run as MONAI's users run it, has the labels of `predict`."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from samples import write_balls
from torch import Tensor

from tracoco.api.deploy import export
from tracoco.api.predictions import predict
from tracoco.config import InferenceConfig
from tracoco.errors import UserError
from tracoco.geometry import Size
from tracoco.inference.monai_bundle import intensities, write_configs
from tracoco.inference.portable import ModelDescription
from tracoco.inference.sliding_window import predict_volume
from tracoco.inference.windows import strides
from tracoco.presets import load_config
from tracoco.project.create import init_project
from tracoco.project.normalise import normalise
from tracoco.project.plan import Plan, write_plan
from tracoco.project.prepare import prepare
from tracoco.scans.reader import read_label
from tracoco.training.train import train

SETTINGS = ["training.steps=40", "network.filters=8", "data.workers=0", "method.name=supervised"]


@pytest.mark.slow
@pytest.mark.parametrize("dimensions", [2, 3])
def test_monai_runs_the_bundle_with_the_same_labels(
    dimensions: Literal[2, 3], tmp_path: Path
) -> None:
    pytest.importorskip("monai")
    pytest.importorskip("ignite")
    data = write_balls(tmp_path / "data", labelled=4, unlabelled=1)
    project = init_project(data, tmp_path / "project", validation=1, dimensions=dimensions)
    spacing = (1.3, 0.8, 1.7) if dimensions == 3 else (None, 0.8, 1.7)
    write_plan(project.plan_file, project.load_plan().model_copy(update={"spacing_mm": spacing}))
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
    assert min(equal) >= 0.9999


PLAN = {
    "dimensions": 3,
    "channels": 1,
    "label_values": (0, 1),
    "class_names": ("background", "one"),
    "slice_axis": None,
    "spacing_mm": (1.0, 1.0, 1.0),
    "crop": (8, 8, 8),
}


def gamma_noise() -> NDArray[np.float32]:
    noise = np.random.default_rng(0).gamma(2.0, 20.0, (9, 8, 7)).astype(np.float32)
    noise[:3] = 0
    return noise


@pytest.mark.parametrize("channel", [gamma_noise(), np.full((3, 3, 3), 7, np.float32)])
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
def test_intensities_are_those_of_the_run(
    values: dict[str, object], channel: NDArray[np.float32]
) -> None:
    steps = pytest.importorskip("tracoco.inference.bundle_steps")
    plan = Plan.model_validate(PLAN | values)
    found = steps.normalised(channel, **intensities(plan, 0))
    np.testing.assert_array_equal(found, normalise(channel, plan))


@pytest.mark.parametrize("shape", [(37, 24, 50), (20, 23, 61), (24, 32, 24)])
@pytest.mark.parametrize(
    "config",
    [
        InferenceConfig(),
        InferenceConfig(overlap=0.3, weights="uniform", batch=3),
        InferenceConfig(stride=(9, 16, 7)),
    ],
)
def test_windows_are_those_of_the_run(shape: Size, config: InferenceConfig) -> None:
    steps = pytest.importorskip("tracoco.inference.bundle_steps")
    window, volume = (24, 32, 24), torch.rand(2, *shape)
    step = config.stride or strides(window, config.overlap)
    even, gaussian = config.stride is None, config.weights == "gaussian"
    inferer = steps.Windows(window, step, even=even, gaussian=gaussian, batch=config.batch)
    expected = predict_volume(place_in_window, volume, window, config)
    torch.testing.assert_close(inferer(volume[None], place_in_window)[0], expected)


def place_in_window(crops: Tensor) -> Tensor:
    """What says something else of a voxel in every window, as networks do."""
    place = torch.linspace(0, 1, crops[0, 0].numel()).reshape(crops.shape[2:])
    return torch.sigmoid(crops[:, :1] * 3 + place - crops.mean(dim=(1, 2, 3, 4), keepdim=True))


def test_slices_resized_to_the_crop_are_refused(tmp_path: Path) -> None:
    flat = {"dimensions": 2, "slice_axis": 2, "crop": (1, 8, 8), "resize_slices": True}
    description = ModelDescription(
        tracoco="1",
        run="run",
        method="supervised",
        checkpoint="last",
        averaged=False,
        window=(1, 8, 8),
        multiple_of=None,
        inference=InferenceConfig(),
        plan=Plan.model_validate(PLAN | flat),
    )
    with pytest.raises(UserError, match="cannot resize slices"):
        write_configs(tmp_path, description)
