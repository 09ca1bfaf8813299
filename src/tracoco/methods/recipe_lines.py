"""The released recipe of a method in a few lines, as `tracoco methods NAME` tells it."""

from tracoco.config import Config, OptimizerConfig
from tracoco.methods import METHODS
from tracoco.presets import has_released_recipe, load_config, released_recipe
from tracoco.settings import LossConfig

PROTOCOLS = {"la": "la-8", "pancreas": "pancreas-12", "acdc": "acdc-7", "brats19": "brats19-25"}
"""The preset that stands for each data set of the field."""
OWN_LOSS = ("dhc", "tracoco-as-released")
"""Methods that compute the supervised loss themselves, as their releases do."""


def recipe_lines(method: str) -> list[str]:
    """Where the recipe is from, and how it trains on each data set of the release.

    A release that is for other data is told as it is carried over to one of ours. Nothing is told
    of a method without a released recipe.
    """
    if not has_released_recipe(method):
        return []
    recipe = released_recipe(method)
    lines: dict[str, list[str]] = {}
    for data in recipe.made_for or ("la",):
        preset = PROTOCOLS[data]
        config = load_config(preset, ["recipe=released", f"method.name={method}"])
        lines.setdefault(_told(config), []).append(preset)
    origin = "" if recipe.made_for else "made for other data; carried over to "
    return [
        f"from {recipe.source}",
        *(f"{origin}{', '.join(presets)}: {told}" for told, presets in lines.items()),
    ]


def _told(config: Config) -> str:
    labelled, unlabelled = config.data.batch
    learns = METHODS[config.method.name].trained_by_unlabelled
    batch = f"{labelled} + {unlabelled} crops" if learns else f"{labelled} crops"
    own = config.method.name in OWN_LOSS
    parts = [
        _optimizer(config.optimizer),
        batch,
        "a supervised loss of its own" if own else _loss(config.loss),
        f"{config.training.length:,} steps",
    ]
    return "; ".join(parts)


def _optimizer(config: OptimizerConfig) -> str:
    schedules = {
        "poly": f"poly {config.poly_power:g}",
        "cosine": "cosine",
        "step": f"times {config.drop_factor:g} every {config.drop_every:,} steps",
        "constant": "constant",
    }
    name = {"sgd": "SGD", "adam": "Adam", "adamw": "AdamW"}[config.name]
    nesterov = " (Nesterov)" if config.nesterov else ""
    stages = ", anew in each stage" if config.restart else ""
    return (
        f"{name} {config.lr:g}, momentum {config.momentum:g}{nesterov}, "
        f"weight decay {config.weight_decay:g}, {schedules[config.schedule]}{stages}"
    )


def _loss(config: LossConfig) -> str:
    forms = [
        word
        for word, holds in (
            ("with background", config.dice_background),
            ("of each crop", config.dice_per_crop),
            ("linear denominators", config.dice_linear),
        )
        if holds
    ]
    dice = f"{config.dice:g} Dice" + (f" ({', '.join(forms)})" if forms else "")
    terms = [f"{config.cross_entropy:g} CE"] if config.cross_entropy else []
    return " + ".join([*terms, dice] if config.dice else terms)
