"""Presets: their bases, their methods, and the numbers of the paper and of its release."""

import pytest
import torch
from samples import make_batch

from tracoco.config import Config
from tracoco.methods import dropped_settings, method_class, resolved_choice
from tracoco.methods.method import StepOutput
from tracoco.presets import load_config, merged, preset_chain, preset_names, preset_text
from tracoco.project.case_statistics import CaseStatistics
from tracoco.project.fingerprint import Fingerprint, LabelValue
from tracoco.project.plan import Plan
from tracoco.project.planner import make_plan
from tracoco.runs.build import resolved, run_crop, run_method
from tracoco.settings import MethodChoice, checked

COUNTS = {
    "la": (8, 16, 32, 80),
    "pancreas": (6, 12, 24, 62),
    "brats19": (25, 50, 125, 250),
    "acdc": (3, 7, 14, 70),
}
PAPER = [f"{data}-{count}" for data, counts in COUNTS.items() for count in counts]
RELEASED = [f"{data}-{n}-as-released" for data, counts in COUNTS.items() for n in counts[:3]]


def plan_of(config: Config) -> Plan:
    """A plan that fits a preset: its dimensions, and four classes for ACDC."""
    flat = len(config.data.crop or ()) == 2
    classes = 4 if flat else 2
    return Plan(
        dimensions=2 if flat else 3,
        channels=1,
        label_values=tuple(range(classes)),
        class_names=tuple(map(str, range(classes))),
        slice_axis=2 if flat else None,
        spacing_mm=(1.0, 1.0, 1.0),
        crop=(1, 256, 256) if flat else (96, 96, 96),
    )


@pytest.mark.parametrize("method", ["tracoco", "supervised"])
@pytest.mark.parametrize("name", PAPER)
def test_every_preset_of_the_paper_loads_and_builds(name: str, method: str) -> None:
    config = load_config(name, [f"method.name={method}", "network.filters=2"])
    data, count = name.rsplit("-", 1)
    assert config.data.labelled == int(count) * (2 if data == "acdc" else 1)
    assert config.data.reuse_labelled is (count == str(COUNTS[data][-1]))
    built = run_method(config, plan_of(config))
    assert type(built) is method_class(method)
    assert run_crop(config, plan_of(config))[-2:] == tuple(config.data.crop or ())[-2:]


@pytest.mark.parametrize("name", RELEASED)
def test_every_preset_of_the_release_loads_and_builds(name: str) -> None:
    config = load_config(name, ["network.filters=2"])
    assert config.method.name == "tracoco-as-released"
    assert config.data.overlap == "low"
    assert config.optimizer.weight_decay == 1e-4
    assert type(run_method(config, plan_of(config))) is method_class("tracoco-as-released")


@pytest.mark.parametrize(
    ("name", "network", "crop", "stride", "steps"),
    [
        ("la-8", "vnet", (112, 112, 80), (18, 18, 4), 15_000),
        ("la-16", "vnet", (112, 112, 80), (18, 18, 4), 15_000),
        ("pancreas-12", "vnet", (96, 96, 96), (16, 16, 16), 15_000),
        ("brats19-50", "unet", (96, 96, 96), (16, 16, 16), 30_000),
        ("acdc-7", "unet", (256, 256), (256, 256), 50_000),
    ],
)
def test_the_papers_numbers(
    name: str, network: str, crop: tuple[int, ...], stride: tuple[int, ...], steps: int
) -> None:
    config = load_config(name)
    assert (config.network.name, config.network.filters) == (network, 16)
    assert (config.data.crop, config.inference.stride) == (crop, stride)
    assert config.training.steps == steps
    optimizer = config.optimizer
    assert (optimizer.lr, optimizer.momentum, optimizer.weight_decay) == (0.05, 0.9, 5e-4)
    settings = checked(method_class("tracoco").Config, config.method.settings, name).model_dump()
    assert (settings["consistency_weight"], settings["entropy_weight"]) == (1.0, 0.1)
    assert (settings["gamma"], settings["beta"], settings["noise"]) == (0.65, 0.1, 0.2)
    assert (settings["rampup"], settings["rampup_epochs"]) == ("cosine", 40)
    batch = 4 if name.startswith("acdc") else 2
    assert (config.data.labelled_batch, config.data.unlabelled_batch) == (batch, batch)
    assert config.data.strong is name.startswith("acdc")


@pytest.mark.parametrize("preset", ["la-8", "brats19-25", "acdc-7"])
def test_a_presets_noise_ramp_and_weight_hold_for_every_co_training_method(preset: str) -> None:
    shared = ("noise", "rampup", "rampup_epochs", "unsupervised_weight", "pseudo_labels")
    expected = [0.2, "cosine", 40, 1.0, "batch"]
    for name in ("tracoco", "cps", "cac-co"):
        choice = resolved_choice(load_config(preset, [f"method.name={name}"]).method)
        assert [choice.settings[key] for key in shared] == expected
    changed = load_config(preset, ["method.name=cps", "method.noise=0.1"]).method
    assert resolved_choice(changed).settings["noise"] == 0.1


def test_settings_of_the_same_name_but_another_meaning_are_not_taken_over() -> None:
    # The noise of a mean teacher is normal and on the teacher's crops.
    teacher = load_config("la-8", ["method.name=mean-teacher"]).method
    assert resolved_choice(teacher) == resolved_choice(MethodChoice(name="mean-teacher"))
    assert dropped_settings(teacher)[:2] == ["noise", "unsupervised_weight"]
    contrast = load_config("la-8", ["method.name=cac-co"]).method
    assert resolved_choice(contrast).settings["threshold"] == 0.75
    dropped = ["consistency_weight", "entropy_weight", "gamma", "beta"]
    assert dropped_settings(contrast) == dropped
    assert dropped_settings(load_config("la-8").method) == []
    assert dropped_settings(load_config(None, ["method.name=cps"]).method) == []


def test_a_release_keeps_its_own_ramp_under_the_papers_preset() -> None:
    choice = load_config("la-8", ["method.name=tracoco-as-released"]).method
    assert resolved_choice(choice).settings["rampup"] == "sigmoid"


def test_acdc_translates_and_its_literal_form_is_a_preset_of_its_own() -> None:
    ours, literal = load_config("acdc-7"), load_config("acdc-literal", ["data.labelled=14"])
    assert (ours.data.room, literal.data.room) == (0.25, 0.0)
    assert ours.method.settings["negative_gate"] == "class"
    assert literal.method.settings["negative_gate"] == "minimum"
    same = {"data": {"room"}, "method": {"negative_gate"}}
    assert ours.model_dump(exclude=same) == literal.model_dump(exclude=same)
    assert load_config("acdc-7-as-released").data.room == 0.0


@pytest.mark.parametrize(
    ("name", "lr", "steps", "weight", "alphas", "noise"),
    [
        ("la-8-as-released", 0.05, 9_000, 0.3, (0.3, 0.1), 0.2),
        ("la-32-as-released", 0.05, 12_000, 1.0, (0.3, 0.1), 0.2),
        ("pancreas-6-as-released", 0.025, 7_000, 0.3, (1.0, 0.1), 0.05),
        ("brats19-50-as-released", 0.05, 30_000, 1.0, (0.3, 0.05), 0.05),
        ("acdc-14-as-released", 0.065, 50_000, 1.0, (0.1, 0.01), 0.05),
    ],
)
def test_the_releases_numbers(
    name: str, lr: float, steps: int, weight: float, alphas: tuple[float, float], noise: float
) -> None:
    config = load_config(name)
    settings = config.method.settings
    assert (config.optimizer.lr, config.training.steps) == (lr, steps)
    assert settings["unsupervised_weight"] == weight
    assert (settings["consistency_weight"], settings["entropy_weight"]) == alphas
    assert settings["noise"] == noise
    assert config.data.unlabelled_batch == (12 if name.startswith("acdc") else 2)


@pytest.mark.parametrize("name", preset_names())
def test_every_number_of_a_preset_says_where_it_comes_from(name: str) -> None:
    lines = preset_text(name).splitlines()
    assert lines[0].startswith("# ")
    if name == "demo":  # ours, for the phantoms
        return
    for line in lines[1:]:
        key, _, value = line.partition(":")
        stated = value.split("#")[0].strip()
        if stated and key.strip() not in {"base", "name"}:
            assert "# " in value, f"{name}: {line}"


def test_the_demo_keeps_its_batch_and_its_network() -> None:
    # Phantoms are about 54 x 54 x 37 voxels of 1.5 x 1.5 x 2 mm.
    case = CaseStatistics("a", (54, 54, 37), (1.5, 1.5, 2.0), 1)
    plan = make_plan(Fingerprint((case,), (LabelValue(1, 1, 1),)), memory_gb=4)
    config = resolved(load_config("demo"), plan)
    assert (config.data.crop, config.data.batch) == ((32, 32, 24), (2, 2))
    assert config.network.strides == ((2, 2, 2),) * 3


def test_a_preset_stands_on_its_base() -> None:
    assert preset_chain("la-8-as-released") == [
        *("la-8-as-released", "la-as-released", "la", "paper")
    ]
    assert load_config("la-8").network == load_config("la").network


def test_settings_of_a_named_method_go_when_another_is_chosen() -> None:
    named = {"method": {"name": "tracoco", "gamma": 0.5}}
    assert merged(named, {"method": {"name": "cps"}}) == {"method": {"name": "cps"}}
    assert merged(named, {"method": {"noise": 0.1}})["method"]["gamma"] == 0.5
    same = merged(named, {"method": {"name": "tracoco", "noise": 0.1}})
    assert same == {"method": {"name": "tracoco", "gamma": 0.5, "noise": 0.1}}
    anyone = {"method": {"noise": 0.1}}
    assert merged(anyone, {"method": {"name": "cps"}})["method"] == {"noise": 0.1, "name": "cps"}


FULL_SIZE = [
    *((data, method) for data in COUNTS for method in ("tracoco", "supervised")),
    # The other methods on slices, where a step takes seconds: ten minutes are soon over.
    *(("acdc", method) for method in ("mean-teacher", "cps", "cac", "cac-co")),
    *((f"{data}-as-released", "tracoco-as-released") for data in ("la", "acdc")),
]


@pytest.mark.slow
@pytest.mark.parametrize(("preset", "method"), FULL_SIZE)
def test_a_preset_takes_a_step_at_full_size(preset: str, method: str) -> None:
    """One labelled and two unlabelled crops of the full size, forward, backward and update."""
    step_once(load_config(preset, [f"method.name={method}", "data.unlabelled_batch=2"]))


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        # TraCoCo's step of both networks would take 25 GB.
        ("network.name=monai:DynUNet", "network.filters=32", "method.name=supervised"),
        ("network.name=transunet", "data.crop=[96, 96]"),
    ],
)
def test_the_other_backbones_take_a_step_at_full_size(changes: tuple[str, ...]) -> None:
    step_once(load_config("brats19", [*changes, "data.unlabelled_batch=2"]))


def step_once(config: Config, step: int = 1000) -> None:
    torch.manual_seed(0)
    plan = plan_of(config)
    method = run_method(config, plan)
    crop = run_crop(config, plan)[-plan.dimensions :]
    batch = make_batch(plan.dimensions, plan.classes, labelled=1, unlabelled=2, size=crop)
    optimizer = torch.optim.SGD(method.parameter_groups(), lr=0.01)
    before = [parameter.detach().clone() for parameter in method.inference_network().parameters()]
    method.before_step(batch, step)
    loss = torch.stack(list(method(batch, step).terms.values())).sum()
    loss.backward()
    optimizer.step()
    method.after_step(StepOutput({}), make_batch(2), step)
    after = method.inference_network().parameters()
    assert loss.isfinite()
    assert any(not torch.equal(a, b) for a, b in zip(before, after, strict=True))


@pytest.mark.parametrize("memory_gb", [8, 24, 80])
def test_a_preset_for_a_gpu_leaves_the_sizes_to_the_plan(memory_gb: int) -> None:
    case = CaseStatistics("a", (340, 340, 220), (1.0, 1.0, 1.0), 1)
    facts = Fingerprint((case,), (LabelValue(1, 1, 1),))
    plan = make_plan(facts, memory_gb=memory_gb, device="gpu")
    config = resolved(load_config(f"gpu-{memory_gb}gb"), plan)
    assert (config.data.crop, config.data.batch) == (plan.crop, plan.batch)
    assert config.network.filters == plan.filters
    # What the plan says too is the same, whichever is asked.
    assert (config.training.steps, config.training.precision) == (plan.steps, plan.precision)
    assert (config.network.normalisation, config.network.decoder) == ("batch", "convolution")
