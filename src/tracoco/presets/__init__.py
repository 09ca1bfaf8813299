"""Presets: settings with a name, each number with its source; and how `--set` changes them."""

from collections.abc import Sequence
from importlib import resources
from typing import Any

import yaml

from tracoco.config import Config, parse_config
from tracoco.errors import UserError, did_you_mean
from tracoco.settings import PRESET

Values = dict[str, Any]


def load_config(preset: str | None, overrides: Sequence[str] = ()) -> Config:
    """Defaults, then the preset, then each `KEY=VALUE` of `overrides`.

    Where they choose another method than the preset, what the preset says of its own is kept
    beside the new one's settings: those that both have in common hold for the new one too.
    """
    stated = read_preset(preset) if preset else {}
    values = with_overrides(stated, overrides)
    if PRESET in (values.get("method") or {}):
        raise UserError(f"method.{PRESET} is not a setting; choose a preset with --preset")
    if _names_another(stated.get("method"), values.get("method")):
        values = merged(values, {"method": {PRESET: stated["method"]}})
    return parse_config(values, preset or "settings")


def with_overrides(values: Values, overrides: Sequence[str]) -> Values:
    """Values with each `KEY=VALUE` of `overrides` on top."""
    for override in overrides:
        values = merged(values, _parse_override(override))
    return values


def preset_names() -> list[str]:
    """All shipped presets, sorted."""
    folder = resources.files("tracoco") / "presets"
    return sorted(
        f.name.removesuffix(".yaml") for f in folder.iterdir() if f.name.endswith(".yaml")
    )


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
    values: Values = {}
    for each in reversed(preset_chain(name)):
        stated: Values = yaml.safe_load(preset_text(each))
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
    except yaml.YAMLError as error:
        reason = " ".join(str(error).split())
        raise UserError(f"--set {override}: cannot read the value ({reason})") from error
    for part in reversed(key.split(".")):
        value = {part: value}
    changes: Values = value
    return changes
