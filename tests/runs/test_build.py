from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tracoco.errors import UserError
from tracoco.networks import build_network
from tracoco.presets import load_config
from tracoco.project.folder import Project
from tracoco.project.plan import Plan
from tracoco.runs import build
from tracoco.runs.build import machine_name, planned, resolved, run_crop, run_method, run_strides


def flat(plan: Plan) -> Plan:
    sizes = {"crop": (1, 16, 16), "strides": ((2, 2), (2, 2))}
    return plan.model_copy(update={"dimensions": 2, "slice_axis": 2, **sizes})


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
        run_method(load_config(None, ["data.crop=[16, 15, 15]"]), project.load_plan())
    settings = ["network.name=unet", "data.crop=[32, 24, 16]"]
    with pytest.raises(UserError, match="cannot be halved 4 times on axis 1, as 'unet' does"):
        run_method(load_config(None, settings), project.load_plan())


def test_what_the_settings_leave_open_is_the_plans(project: Project) -> None:
    plan = project.load_plan().model_copy(update={"batch": (3, 5)})
    # Voxels of 1 x 1 x 2 mm: 16, 16 and 20 to 4, 4 and 5.
    assert plan.strides == ((2, 2, 2), (2, 2, 2))
    config = resolved(load_config(None), plan)
    assert config.data.batch == (3, 5)
    assert config.data.crop == plan.crop == (16, 16, 20)
    assert config.network.strides == plan.strides
    assert resolved(config, plan) == config
    given = load_config(None, ["data.unlabelled_batch=0", "network.strides=[[2, 2, 1]]"])
    assert resolved(given, plan).data.batch == (3, 0)
    assert resolved(given, plan).network.strides == ((2, 2, 1),)
    told = load_config(None, ["network.strides=[[2, 2, 1]]", "network.filters=2"])
    assert run_method(told, plan).inference_network().stride == (2, 2, 1)


def test_another_crop_keeps_the_plans_levels_if_it_can_and_else_gets_its_own(
    project: Project,
) -> None:
    plan = project.load_plan()

    def strides(crop: str) -> object:
        return run_strides(load_config(None, [f"data.crop={crop}"]), plan)

    assert strides("[64, 64, 64]") == plan.strides
    assert strides("[16, 12, 16]") == plan.strides
    # 14 halves once, then it is odd.
    assert strides("[16, 14, 16]") == ((2, 2, 2), (2, 1, 2))
    assert run_strides(load_config(None, ["data.crop=[16, 6]"]), flat(plan)) == ((2, 2),)


@pytest.mark.parametrize("given", [[], ["network.strides=[]"]])
def test_a_plan_from_before_there_were_levels_builds_the_network_of_then(
    project: Project, given: list[str]
) -> None:
    plan = project.load_plan()
    plan = plan.model_copy(update={"crop": (16, 16, 8)} | ({} if given else {"strides": ()}))
    config = load_config(None, ["network.filters=4", *given])
    assert resolved(config, plan).network.strides == ((2, 2, 2),) * 3
    assert resolved(resolved(config, plan), plan) == resolved(config, plan)
    assert run_method(config, plan).inference_network().feature_channels == (4, 8, 16, 32)


def test_networks_that_cannot_be_told_leave_the_plans_strides_alone(project: Project) -> None:
    plan = project.load_plan().model_copy(update={"crop": (32, 16, 16), "strides": ((2, 2, 1),)})
    config = load_config(None, ["network.name=vnet", "network.filters=2"])
    assert resolved(config, plan).network.strides is None
    assert run_method(config, plan).inference_network().stride == (16, 16, 16)
    told = load_config(None, ["network.name=vnet", "network.strides=[[2, 2, 2]]"])
    with pytest.raises(UserError, match=r"'vnet' takes no network\.strides"):
        run_method(told, plan)


def test_strides_of_other_dimensions_are_refused(project: Project) -> None:
    config = load_config(None, ["network.strides=[[2, 2]]"])
    with pytest.raises(
        UserError, match=r"network\.strides \[\[2, 2\]\]: each level needs 3 numbers"
    ):
        run_method(config, project.load_plan())


def test_noise_is_a_fraction_of_the_range_that_the_plan_gives(project: Project) -> None:
    config, plan = load_config(None, ["method.noise=0.1"]), project.load_plan()
    noises = {
        name: run_method(config, plan.model_copy(update={"normalisation": name})).noise
        for name in ("range", "zscore")
    }
    assert noises == {"range": pytest.approx(0.1), "zscore": pytest.approx(0.5)}


def test_methods_know_the_limits_that_the_plan_gives(project: Project) -> None:
    config, plan = load_config(None, ["method.name=fixmatch"]), project.load_plan()
    assert plan.normalisation == "zscore"
    assert run_method(config, plan).limits == (-5, 5)
    plan = plan.model_copy(update={"normalisation": "range"})
    assert run_method(config, plan).limits == (0, 1)


def test_width_steps_and_precision_are_the_plans_unless_given(project: Project) -> None:
    sizes = {"filters": 32, "steps": 9, "precision": "bf16"}
    plan = project.load_plan().model_copy(update=sizes)
    own = resolved(load_config(None), plan)
    assert (own.network.filters, own.training.steps, own.training.precision) == (32, 9, "bf16")
    told = ["network.filters=4", "training.steps=7", "training.precision=fp32"]
    given = resolved(load_config(None, told), plan)
    assert (given.network.filters, given.training.steps) == (4, 7)
    assert given.training.precision == "fp32"
    # The plan's width is that of light-unet, in whose memory it was chosen.
    assert planned(load_config(None, ["network.name=vnet"]), plan).network.filters == 16
    old = plan.model_copy(update=dict.fromkeys(sizes))
    before = planned(load_config(None), old)
    assert (before.network.filters, before.training.steps) == (16, 2000)
    assert before.training.precision == "auto"


def test_a_machine_is_named_by_its_processor_and_what_torch_uses_of_it(tmp_path: Path) -> None:
    told = tmp_path / "cpuinfo"
    told.write_text("processor : 0\nmodel name\t: Some CPU: fast\nmodel name\t: Some CPU: fast\n")
    capability = torch.backends.cpu.get_cpu_capability()
    assert machine_name(torch.device("cpu"), told) == f"Some CPU: fast, {capability}"
    assert machine_name(torch.device("cpu"), tmp_path / "none").endswith(f", {capability}")
