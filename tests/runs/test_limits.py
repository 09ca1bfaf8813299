"""Settings that no machine can run are one error, before anything is built."""

from pathlib import Path

import pytest
import torch

from tracoco.config import Config
from tracoco.errors import UserError
from tracoco.presets import load_config
from tracoco.project.folder import Project
from tracoco.runs import build
from tracoco.runs.build import resolved, run_crop, run_method
from tracoco.training.train import train

ABSURD = [
    ("network.filters=100000", "a network 'light-unet' of 100,000 filters needs at least"),
    (
        "data.crop=[100000, 100000, 100000]",
        "4 crops of 100,000 x 100,000 x 100,000 voxels needs",
    ),
    ("data.labelled_batch=1000000000", "a step with 1,000,000,002 crops of .* voxels needs at"),
    (f"network.strides={[[1, 1, 1]] * 100}", "network.strides has 100 levels"),
    (f"network.strides={[[10**9] * 3]}", "network.strides|data.crop"),
]


@pytest.mark.parametrize(("setting", "problem"), ABSURD)
def test_an_absurd_setting_is_one_error_and_no_run(
    project: Project, tmp_path: Path, setting: str, problem: str
) -> None:
    config = load_config(None, ["data.workers=0", setting])
    with pytest.raises(UserError, match=problem):
        train(project, config, tmp_path / "run", device="cpu")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["vnet", "unet", "monai:SegResNet"])
def test_other_networks_are_counted_too(project: Project, name: str) -> None:
    options = {"init_filters": 100_000} if name.startswith("monai") else {}
    values: dict[str, object] = {"network": {"name": name, "filters": 100_000, "options": options}}
    values["data"] = {"crop": [32, 32, 32]}
    with pytest.raises(UserError, match="needs at least"):
        run_method(Config.model_validate(values), project.load_plan())


def test_the_plan_is_checked_like_settings(project: Project) -> None:
    plan = project.load_plan().model_copy(update={"crop": (65_536,) * 3, "strides": ()})
    with pytest.raises(UserError, match="a window of 65,536 x 65,536 x 65,536 voxels needs"):
        run_method(Config(), plan)


def test_what_fits_is_what_the_memory_has(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = project.load_plan()
    config = resolved(Config(), plan)
    crop = run_crop(config, plan)
    build.check_step(config, plan, crop, torch.device("cpu"))
    monkeypatch.setattr(build, "available_bytes", lambda: 2**12)
    with pytest.raises(UserError, match=r"and 0\.0 GiB are available; make data\.crop"):
        build.check_step(config, plan, crop, torch.device("cpu"))
    monkeypatch.setattr(build, "available_bytes", lambda: None)
    build.check_step(config, plan, crop, torch.device("cpu"))


@pytest.mark.parametrize(("levels", "refused"), [(16, False), (17, True)])
def test_there_are_no_more_levels_than_halvings(levels: int, *, refused: bool) -> None:
    strides: tuple[tuple[int, ...], ...] = ((2, 2, 2),) * levels
    if refused:
        with pytest.raises(UserError, match="17 levels"):
            build.check_levels(strides)
    else:
        build.check_levels(strides)
