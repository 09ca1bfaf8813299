"""Presets and recipes: settings with a name, each number with its source; and `--set`.

A preset is for a data set or a machine. A recipe says how a method is trained: `common` is the same
for all methods, `released/NAME.yaml` has what the authors of a method run. Its section `all` holds
for any data, and further sections have the names of presets that they add to. Such a file may stand
on another one, or on a preset: section by section, its own numbers come after those of its base.
The paper's presets stand on `paper`, which is a recipe itself: another one that is asked for takes
its place. A preset that states `recipe: released` has the recipe of its method's authors.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

import numpy as np
import yaml

from tracoco.config import Config, parse_config
from tracoco.errors import UserError, did_you_mean
from tracoco.settings import PRESET, MethodChoice

Values = dict[str, Any]
RECIPES = ("common", "released")
"""Recipes that can be asked for."""
AS_RELEASED = "-as-released"
"""How the presets end that state `recipe: released`; sections of recipes have no such ending."""


def load_config(preset: str | None = None, overrides: Sequence[str] = ()) -> Config:
    """Defaults, then the preset, then the recipe, then each `KEY=VALUE` of `overrides`.

    Where they choose another method than the preset, what the preset says of its own is kept
    beside the new one's settings: those that both have in common hold for the new one too.
    """
    stated = read_preset(preset) if preset else {}
    recipe = with_overrides({}, overrides).get("recipe")
    if recipe is None and stated.get("recipe") in RECIPES:
        recipe = stated["recipe"]
    if recipe is not None:
        name = (with_overrides(stated, overrides).get("method") or {}).get("name")
        stated = _with_recipe(preset, str(recipe), name or MethodChoice().name)
    values = with_overrides(stated, overrides)
    if PRESET in (values.get("method") or {}):
        raise UserError(f"method.{PRESET} is not a setting; choose a preset with --preset")
    if _names_another(stated.get("method"), values.get("method")):
        values = merged(values, {"method": {PRESET: stated["method"]}})
    return parse_config(values, preset or "settings")


def _with_recipe(preset: str | None, recipe: str, method: str) -> Values:
    """What a preset says of its data, and how the recipe trains the method on it."""
    if recipe not in RECIPES:
        raise UserError(f"there is no recipe '{recipe}'; {did_you_mean(recipe, RECIPES)}")
    chain = preset_chain(preset) if preset else []
    data = [name for name in chain if "recipe" not in yaml.safe_load(preset_text(name))]
    # How a method is set is part of the recipe.
    values = _stacked(preset_text(name) for name in reversed(data)) | {"method": {"name": method}}
    if recipe == "released":
        values = merged(values, released_recipe(method, chain).settings)
    return values


@dataclass(frozen=True, slots=True)
class ReleasedRecipe:
    """How the authors of a method train it."""

    source: str
    """The files that the numbers are from."""
    made_for: tuple[str, ...]
    """Presets of the data sets that the release trains on; for other data its numbers are carried
    over."""
    normalisation: str
    """How their scans are normalised, as a plan says it; empty if it is not known."""
    settings: Values


def has_released_recipe(method: str) -> bool:
    """Whether the recipe of a method's authors is known."""
    return _released_file(method).is_file()


def released_recipe(method: str, presets: Sequence[str] = ()) -> ReleasedRecipe:
    """The recipe of a method's authors, for the data of these presets if it is made for it.

    Args:
        method: its name.
        presets: a preset and those that it is based on, as `preset_chain` lists them.
    """
    if not has_released_recipe(method):
        raise UserError(
            f"there is no released recipe of '{method}': its authors have published no code that "
            "could be followed; leave --recipe out, or use --recipe common"
        )
    layers = _released_layers(method)
    own = layers[-1]
    named = {"recipe": "released", "method": {"name": method}}
    values: Values = {}
    for section in ("all", *(name.removesuffix(AS_RELEASED) for name in reversed(presets))):
        for layer in layers:
            values = merged(merged(values, layer.get(section) or {}), named)
    made_for = tuple(own.get("made_for") or ())
    return ReleasedRecipe(own["source"], made_for, own.get("normalisation", ""), values)


def _released_layers(name: str) -> list[Values]:
    """The sections of a recipe's file, after those of the files that it stands on."""
    file = _released_file(name)
    if not file.is_file():
        return [{"all": read_preset(name)}]
    sections: Values = yaml.safe_load(file.read_text(encoding="utf-8"))
    base = sections.get("base")
    return [*(_released_layers(base) if base else []), sections]


def released_text(name: str) -> str:
    """The recipe of a method's authors, or one that others stand on, with its comments."""
    return _released_file(name).read_text(encoding="utf-8")


def released_names() -> list[str]:
    """All recipes of methods' authors, and those that they stand on, sorted."""
    folder = resources.files("tracoco") / "presets" / "released"
    return sorted(f.name.removesuffix(".yaml") for f in folder.iterdir())


def _released_file(name: str) -> Traversable:
    return resources.files("tracoco") / "presets" / "released" / f"{name}.yaml"


def with_overrides(values: Values, overrides: Sequence[str]) -> Values:
    """Values with each `KEY=VALUE` of `overrides` on top."""
    for override in overrides:
        values = merged(values, _parse_override(override))
    return values


def settings_words(settings: Mapping[str, Any] | Sequence[str]) -> list[str]:
    """Changes of settings in the form `KEY=VALUE`."""
    if not isinstance(settings, Mapping):
        return list(settings)
    return [f"{key}={json.dumps(value, default=_plain)}" for key, value in settings.items()]


def _plain(value: Any) -> Any:
    """A number of numpy as one of Python, and anything else, e.g. a path, as its text."""
    return value.item() if isinstance(value, np.generic) else str(value)


def preset_names() -> list[str]:
    """All shipped presets, sorted."""
    folder = resources.files("tracoco") / "presets"
    return sorted(
        f.name.removesuffix(".yaml") for f in folder.iterdir() if f.name.endswith(".yaml")
    )


@dataclass(frozen=True, slots=True)
class PresetEntry:
    """A preset as a list shows it."""

    name: str
    about: str
    """Its first line: what it is for."""
    settings: Values
    """All that it states, on top of the presets that it is based on."""


def list_presets(names: Sequence[str] | None = None) -> list[PresetEntry]:
    """List the shipped presets: all of them, or those of these names."""
    return [
        PresetEntry(name, preset_text(name).splitlines()[0].removeprefix("# "), read_preset(name))
        for name in (preset_names() if names is None else names)
    ]


def preset_text(name: str) -> str:
    """A preset as it is shipped, with its comments."""
    if name not in preset_names():
        raise UserError(f"preset '{name}' does not exist; {did_you_mean(name, preset_names())}")
    return (resources.files("tracoco") / "presets" / f"{name}.yaml").read_text(encoding="utf-8")


def preset_chain(name: str) -> list[str]:
    """The preset, the one that it is based on, and so on."""
    base = yaml.safe_load(preset_text(name)).get("base")
    return [name, *(preset_chain(base) if base else [])]


def read_preset(name: str) -> Values:
    """The values that a preset states, on top of those of its base."""
    return _stacked(preset_text(each) for each in reversed(preset_chain(name)))


def _stacked(texts: Iterable[str]) -> Values:
    """The values of presets, each on top of those before it."""
    values: Values = {}
    for text in texts:
        stated: Values = yaml.safe_load(text)
        stated.pop("base", None)
        values = merged(values, stated)
    return values


def merged(values: Values, changes: Values) -> Values:
    """Values with changes on top, group by group.

    Settings of a method that is named are its own: they go when another method is chosen. Those
    that stand without a name are for any method.
    """
    result = dict(values)
    for key, change in changes.items():
        old = values.get(key)
        if key == "method" and _names_another(old, change):
            old = None
        groups = isinstance(old, dict) and isinstance(change, dict)
        result[key] = merged(old or {}, change) if groups else change
    return result


def _names_another(old: Any, change: Any) -> bool:
    names = [group.get("name") for group in (old, change) if isinstance(group, dict)]
    return len(names) == 2 and None not in names and names[0] != names[1]


def _parse_override(override: str) -> Values:
    key, equals, text = override.partition("=")
    if not (key and equals):
        raise UserError(
            f"--set '{override}' is not of the form KEY=VALUE, e.g. --set optimizer.lr=0.01"
        )
    try:
        value = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"--set {override}: cannot read the value ({reason})") from error
    for part in reversed(key.split(".")):
        value = {part: value}
    changes: Values = value
    return changes
