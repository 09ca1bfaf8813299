"""Recipes: what `--recipe` changes, and what the released ones say."""

import pytest

from tracoco.errors import UserError
from tracoco.methods import METHODS
from tracoco.methods.method import resolved_choice
from tracoco.presets import has_released_recipe, load_config, released_recipe, released_text

RELEASED = [name for name in METHODS if has_released_recipe(name)]
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


@pytest.mark.parametrize("method", RELEASED)
@pytest.mark.parametrize("preset", [None, *PROTOCOLS])
def test_every_released_recipe_has_settings_that_exist(method: str, preset: str | None) -> None:
    config = load_config(preset, ["recipe=released", f"method.name={method}"])
    assert config.recipe == "released"
    assert resolved_choice(config.method).name == method


@pytest.mark.parametrize("method", RELEASED)
def test_every_number_of_a_released_recipe_has_its_source(method: str) -> None:
    lines = released_text(method).splitlines()
    assert released_recipe(method).source
    bare = [
        line
        for line in lines
        if line.startswith("    ") and line.rstrip()[-1].isdigit() and "#" not in line
    ]
    assert not bare
