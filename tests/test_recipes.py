"""Recipes: what `--recipe` changes, and what the released ones say."""

import re

import pytest
import torch
import yaml
from test_presets import plan_of, step_once

from tracoco.errors import UserError
from tracoco.methods import METHODS, method_class, resolved_choice
from tracoco.methods.recipe_lines import recipe_lines
from tracoco.presets import (
    has_released_recipe,
    load_config,
    preset_names,
    released_names,
    released_text,
)
from tracoco.runs.build import run_method

RELEASED = [name for name in METHODS if has_released_recipe(name)]
SMALL_SECOND = "{feature_size: 2, hidden_size: 12, mlp_dim: 12, num_heads: 1}"
"""Options that keep the transformer of `cross-teaching` small."""
PROTOCOLS = ("la-8", "la-16", "pancreas-12", "acdc-7", "brats19-25")


def test_without_a_preset_the_recipe_is_the_common_one() -> None:
    assert load_config(None).recipe == "common"
    assert load_config("hippocampus-cpu").recipe == "common"
    assert load_config("la-8").recipe == "paper"


def test_the_common_recipe_takes_the_place_of_the_papers_and_keeps_the_data() -> None:
    config, common = load_config("la-8", ["recipe=common"]), load_config(None)
    assert config.recipe == "common"
    assert (config.optimizer, config.training.ema_decay) == (
        common.optimizer,
        common.training.ema_decay,
    )
    assert (config.data.labelled, config.data.crop) == (8, (112, 112, 80))
    assert config.network.name == "vnet"


def test_the_released_recipe_is_that_of_the_method_for_the_data_of_the_preset() -> None:
    la = load_config("la-8", ["recipe=released", "method.name=ua-mt"])
    assert (la.recipe, la.method.name, la.data.labelled) == ("released", "ua-mt", 8)
    assert (la.optimizer.schedule, la.optimizer.lr, la.training.steps) == ("step", 0.01, 6000)
    assert (la.loss.cross_entropy, la.loss.dice, la.loss.dice_background) == (0.5, 0.5, False)
    assert la.method.settings["unsupervised_weight"] == 0.1
    acdc = load_config("acdc-7", ["recipe=released", "method.name=ua-mt"])
    assert (acdc.optimizer.schedule, acdc.training.steps) == ("poly", 30000)
    assert acdc.data.batch == (12, 12)
    assert acdc.loss.dice_background


def test_single_settings_change_a_recipe() -> None:
    config = load_config("la-8", ["recipe=released", "method.name=ua-mt", "optimizer.lr=0.1"])
    assert (config.recipe, config.optimizer.lr) == ("released", 0.1)


def test_a_recipe_that_does_not_exist_is_told() -> None:
    with pytest.raises(UserError, match="there is no recipe 'realised'; did you mean 'released'"):
        load_config(None, ["recipe=realised"])
    with pytest.raises(UserError, match="no released recipe of 'cac-co'"):
        load_config(None, ["recipe=released", "method.name=cac-co"])


def test_a_preset_that_states_the_recipe_of_a_release_has_it() -> None:
    for labels in ("la-8", "pancreas-12", "acdc-7", "brats19-25"):
        stated = load_config(f"{labels}-as-released")
        asked = load_config(labels, ["recipe=released", "method.name=tracoco-as-released"])
        assert stated == asked
        assert stated.recipe == "released"
    common = load_config("la-8-as-released", ["recipe=common"])
    assert (common.recipe, common.data.labelled) == ("common", 8)
    assert common.optimizer == load_config(None).optimizer


def test_the_recipe_of_tracoco_is_that_of_its_paper() -> None:
    for preset in (*PROTOCOLS, "acdc-literal"):
        asked = load_config(preset, ["recipe=released"])
        assert asked.model_dump(exclude={"recipe"}) == load_config(preset).model_dump(
            exclude={"recipe"}
        )


@pytest.mark.parametrize(
    ("preset", "method", "schedule", "batch_and_steps", "loss", "setting"),
    [
        ("la-8", "supervised", "step", (4, 6000), (0.5, 0.5), ("noise", 0.0)),
        ("la-8", "dtc", "step", (2, 6000), (0.0, 1.0), ("distance_weight", 0.3)),
        ("la-8", "sassnet", "step", (2, 6000), (0.0, 1.0), ("unsupervised_weight", 0.015)),
        ("la-16", "sassnet", "step", (2, 6000), (0.0, 1.0), ("unsupervised_weight", 0.01)),
        ("la-8", "mc-net", "constant", (2, 15000), (0.0, 0.5), ("rampup_steps", 6000)),
        ("acdc-7", "mc-net", "constant", (12, 30000), (0.0, 0.5), ("unsupervised_weight", 0.1)),
        ("la-8", "ss-net", "step", (2, 15000), (0.0, 1.0), ("unsupervised_weight", 1.0)),
        ("la-8", "bcp", "step", (4, 17000), (0.5, 0.5), ("unsupervised_weight", 0.5)),
        ("pancreas-12", "bcp", "constant", (4, 6800), (0.5, 0.5), ("decay", 0.99)),
        ("acdc-7", "bcp", "constant", (12, 40000), (0.5, 0.5), ("pretrain", 0.25)),
        ("acdc-7", "unimatch", "poly", (12, 29400), (0.25, 0.25), ("strong_weight", 0.125)),
        ("la-16", "caml", "constant", (2, 15000), (0.0, 0.5), ("rampup_steps", 2250)),
        ("la-16", "dmd", "step", (2, 6000), (0.0, 1.0), ("temperature", 1.93)),
        ("pancreas-12", "mc-caussl", "step", (2, 5000), (0.5, 0.5), ("independence_weight", 3.0)),
        ("la-8", "ac-mt", "poly", (2, 8000), (0.5, 0.5), ("unsupervised_weight", 0.1)),
    ],
)
def test_the_numbers_of_the_releases(
    preset: str,
    method: str,
    schedule: str,
    batch_and_steps: tuple[int, int],
    loss: tuple[float, float],
    setting: tuple[str, float],
) -> None:
    config = load_config(preset, ["recipe=released", f"method.name={method}"])
    assert config.optimizer.schedule == schedule
    assert (config.data.labelled_batch, config.training.steps) == batch_and_steps
    assert (config.loss.cross_entropy, config.loss.dice) == loss
    assert config.method.settings[setting[0]] == setting[1]


def test_stages_of_a_release_have_its_lengths() -> None:
    la, pancreas = (
        load_config(preset, ["recipe=released", "method.name=bcp", "network.filters=2"])
        for preset in ("la-8", "pancreas-12")
    )
    assert run_method(la, plan_of(la)).pretrain_steps == 2000
    assert run_method(pancreas, plan_of(pancreas)).pretrain_steps == 1800
    assert (la.optimizer.restart, pancreas.optimizer.restart) == (True, False)


@pytest.mark.parametrize("method", RELEASED)
def test_without_a_preset_every_released_recipe_has_settings_that_exist(method: str) -> None:
    config = load_config(None, ["recipe=released", f"method.name={method}"])
    assert config.recipe == "released"
    assert resolved_choice(config.method).name == method


@pytest.mark.parametrize("method", RELEASED)
@pytest.mark.parametrize("preset", PROTOCOLS)
def test_every_released_recipe_builds_on_every_protocol(method: str, preset: str) -> None:
    small = ["network.filters=2"]
    if method == "cross-teaching":
        small.append(f"method.second_options={SMALL_SECOND}")
    config = load_config(preset, ["recipe=released", f"method.name={method}", *small])
    assert config.recipe == "released"
    with torch.device("meta"):
        built = run_method(config, plan_of(config))
    assert type(built) is method_class(method)


@pytest.mark.parametrize("name", released_names())
def test_every_value_of_a_released_recipe_has_its_source(name: str) -> None:
    sections = yaml.safe_load(released_text(name))
    stated = [line for line in released_text(name).splitlines() if re.match(r' +[\w"]+: +\S', line)]
    assert not [line for line in stated if " # " not in line]
    known = {"source", "made_for", "normalisation", "base", "all", *preset_names()}
    assert set(sections) <= known
    assert name not in METHODS or sections["source"]


@pytest.mark.parametrize("method", METHODS)
def test_the_recipe_is_told_in_a_few_lines(method: str) -> None:
    lines = recipe_lines(method)
    assert bool(lines) == has_released_recipe(method)
    assert all(line.endswith(" steps") for line in lines[1:])
    assert len(lines) <= 5


def test_a_recipe_is_told_with_source_optimizer_batch_loss_and_steps() -> None:
    source, la, pancreas, _ = recipe_lines("bcp")
    assert source.startswith("from BCP: code/LA_BCP_train.py")
    assert la == (
        "la-8: SGD 0.01, momentum 0.9, weight decay 0.0001, times 0.1 every 2,500 steps, anew in "
        "each stage; 4 + 4 crops; 0.5 CE + 0.5 Dice (with background, of each crop, linear "
        "denominators); 17,000 steps"
    )
    assert pancreas.startswith("pancreas-12: Adam 0.001, ")
    assert recipe_lines("dhc")[1].startswith("made for other data; carried over to la-8: SGD 0.03")


@pytest.mark.slow
@pytest.mark.parametrize("method", ["ua-mt", "dtc", "mc-net", "ss-net", "bcp", "unimatch", "caml"])
def test_a_released_recipe_takes_a_step_at_full_size(method: str) -> None:
    """Past the 2,000 steps after which `bcp` has a teacher."""
    step_once(load_config("la-8", ["recipe=released", f"method.name={method}"]), step=5000)
