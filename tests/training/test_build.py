from typing import Any

import pytest
import torch
from torch import nn

from tracoco.errors import UserError
from tracoco.networks.network import build_network
from tracoco.presets import load_config
from tracoco.project.folder import Project
from tracoco.project.plan import Plan
from tracoco.training import build
from tracoco.training.build import run_crop, run_method


def flat(plan: Plan) -> Plan:
    return plan.model_copy(update={"dimensions": 2, "slice_axis": 2, "crop": (1, 16, 16)})


def test_the_crop_is_the_plans_unless_given(project: Project) -> None:
    plan = project.load_plan()
    assert run_crop(load_config(None), plan) == plan.crop
    assert run_crop(load_config(None, ["data.crop=[24, 16, 8]"]), plan) == (24, 16, 8)
    assert run_crop(load_config(None, ["data.crop=[24, 16]"]), flat(plan)) == (1, 24, 16)


@pytest.mark.parametrize("crop", ["[16, 16]", "[16, 16, 16, 16]"])
def test_a_crop_of_other_dimensions_is_refused_in_3d(project: Project, crop: str) -> None:
    with pytest.raises(UserError, match="has not the 3 axes"):
        run_crop(load_config(None, [f"data.crop={crop}"]), project.load_plan())


@pytest.mark.parametrize("crop", ["[8, 32, 32]", "[16]"])
def test_a_crop_of_other_dimensions_is_refused_in_2d(project: Project, crop: str) -> None:
    with pytest.raises(UserError, match="has not the 2 axes"):
        run_crop(load_config(None, [f"data.crop={crop}"]), flat(project.load_plan()))


def test_building_draws_from_the_runs_seed_and_leaves_the_callers_generator(
    project: Project,
) -> None:
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    first = run_method(load_config(None, ["seed=1"]), project.load_plan())
    assert torch.equal(torch.rand(1), expected)
    second = run_method(load_config(None, ["seed=1"]), project.load_plan())
    for a, b in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize(("dimensions", "crop"), [(2, (24, 16)), (3, (24, 16, 8))])
def test_a_network_is_built_for_the_runs_crop_and_with_its_options(
    project: Project,
    monkeypatch: pytest.MonkeyPatch,
    dimensions: int,
    crop: tuple[int, ...],
) -> None:
    seen: list[dict[str, Any]] = []

    def recorded(name: str, **facts: Any) -> nn.Module:
        seen.append({"name": name, **facts})
        return build_network(name, **{**facts, "options": None})

    monkeypatch.setattr(build, "build_network", recorded)
    plan = project.load_plan()
    settings = [f"data.crop={list(crop)}", "network.filters=4", "network.options={act: relu}"]
    run_method(load_config(None, settings), plan if dimensions == 3 else flat(plan))
    assert seen
    for facts in seen:
        assert facts["crop"] == crop
        assert facts["dimensions"] == dimensions
        assert facts["options"] == {"act": "relu"}


def test_a_crop_that_does_not_fit_is_refused_when_the_method_is_built(project: Project) -> None:
    with pytest.raises(UserError, match="cannot be halved 3 times on axis 1"):
        run_method(load_config(None, ["data.crop=[16, 12, 16]"]), project.load_plan())
