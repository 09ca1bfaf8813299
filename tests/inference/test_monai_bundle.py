"""An exported MONAI bundle, run as MONAI's users run it, has the labels of `predict`."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from samples import write_balls
from torch import Tensor

from tracoco.api.deploy import export
from tracoco.api.predictions import predict
from tracoco.config import InferenceConfig
from tracoco.errors import UserError
from tracoco.geometry import Size
from tracoco.inference.monai_bundle import inferer_settings, intensities, write_configs
from tracoco.inference.portable import ModelDescription
from tracoco.inference.sliding_window import predict_volume
from tracoco.inference.windows import WindowNeeds, largest_window
from tracoco.presets import load_config
from tracoco.project.create import init_project
from tracoco.project.plan import Plan, write_plan
from tracoco.project.prepare import prepare
from tracoco.project.preprocess import normalise
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


@given(
    shape=st.tuples(*[st.integers(1, 120)] * 3),
    shared=st.tuples(*[st.integers(0, 15)] * 3),
    memory=st.sampled_from([1e6, 1e7, 3e7, 1e8, 1e10]),
    flat=st.booleans(),
)
def test_larger_windows_are_those_of_the_run(
    shape: Size, shared: Size, memory: float, *, flat: bool
) -> None:
    steps = pytest.importorskip("tracoco.inference.bundle_steps")
    crop = (1, 16, 24) if flat else (16, 24, 16)
    needs = WindowNeeds(multiple_of=(8, 4) if flat else (8, 4, 1), voxel_bytes=400, sum_bytes=12)
    found = steps.larger_window(shape, crop, shared, **needs.model_dump(), memory=memory)
    assert found == largest_window(needs, shape, crop, shared, memory)


@pytest.mark.parametrize("shape", [(37, 24, 50), (20, 23, 61), (24, 32, 24)])
@pytest.mark.parametrize(
    "config",
    [
        InferenceConfig(),
        InferenceConfig(overlap=0.3, weights="uniform", batch=3),
        InferenceConfig(stride=(9, 16, 7)),
        InferenceConfig(window="auto", batch=3),
        InferenceConfig(window="auto", memory_gb=0.002),
    ],
)
def test_windows_are_those_of_the_run(shape: Size, config: InferenceConfig) -> None:
    steps = pytest.importorskip("tracoco.inference.bundle_steps")
    volume = torch.rand(2, *shape)
    needs = WindowNeeds(multiple_of=(4, 4, 4), voxel_bytes=40, sum_bytes=4)
    described = description(inference=config, larger_windows=needs)
    settings = inferer_settings(described)
    del settings["_target_"]
    found = steps.Windows(**settings)(volume[None], place_in_window)[0]
    expected = predict_volume(place_in_window, volume, *described.cover(shape))
    torch.testing.assert_close(found, expected)


def test_windows_of_slices_across_any_axis_are_those_of_the_run() -> None:
    steps = pytest.importorskip("tracoco.inference.bundle_steps")
    flat = {"dimensions": 2, "slice_axis": 2, "crop": (1, 8, 12)}
    described = description(plan=Plan.model_validate(PLAN | flat), window=(1, 8, 12))
    settings = inferer_settings(described)
    del settings["_target_"]
    volume = torch.rand(1, 30, 17, 5)
    found = steps.Windows(**settings)(volume[None], place_in_window)[0]
    stored = volume.permute(0, 3, 1, 2)
    expected = predict_volume(place_in_window, stored, *described.cover(stored.shape[1:]))
    torch.testing.assert_close(found, expected.permute(0, 2, 3, 1))


def place_in_window(crops: Tensor) -> Tensor:
    """What says something else of a voxel in every window, as networks do."""
    place = torch.linspace(0, 1, crops[0, 0].numel()).reshape(crops.shape[2:])
    return torch.sigmoid(
        crops[:, :1] * 3 + place - crops.mean(dim=tuple(range(1, crops.ndim)), keepdim=True)
    )


def description(**values: object) -> ModelDescription:
    common = {
        "tracoco": "1",
        "run": "run",
        "method": "supervised",
        "checkpoint": "last",
        "averaged": False,
        "window": (24, 32, 24),
        "multiple_of": None,
        "inference": InferenceConfig(),
        "plan": Plan.model_validate(PLAN),
    }
    return ModelDescription.model_validate(common | values)


def test_slices_resized_to_the_crop_are_refused(tmp_path: Path) -> None:
    flat = {"dimensions": 2, "slice_axis": 2, "crop": (1, 8, 8), "resize_slices": True}
    resizing = description(plan=Plan.model_validate(PLAN | flat))
    with pytest.raises(UserError, match="cannot resize slices"):
        write_configs(tmp_path, resizing)
