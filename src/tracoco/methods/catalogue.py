"""What `tracoco methods` and docs/reference/methods.md tell of a method: origin, settings, costs.

The texts are in one small file per method, `about/NAME.yaml`, with these keys:

    reference    authors, title, venue and year
    formulas     lines for a terminal; names of settings are written as they are
    readings     where publication or release leave room, and what is taken; faults not kept
    not_written  what of the publication this package does not have, if anything

The costs are those that `benchmarks/method_costs.py` measured. Python keeps no docstrings of
attributes, so those of settings are read from the source.
"""

import ast
import inspect
import json
import math
import textwrap
from dataclasses import asdict, dataclass, fields, replace
from importlib import resources
from typing import Any

import yaml
from pydantic import BaseModel

from tracoco.errors import UserError, did_you_mean
from tracoco.methods import (
    FAMILIES,
    METHODS,
    MethodRow,
    load_installed,
    method_class,
    method_row,
)
from tracoco.methods.recipe_lines import recipe_lines
from tracoco.presets import has_released_recipe
from tracoco.settings import Settings

NOTATION = (
    ("L, U", "labelled and unlabelled crops of a step; x a crop, y its label"),
    ("z, p", "logits and class probabilities of what learns; C classes with the background"),
    ("q, ŷ", "probabilities of a teacher or peer, and their likeliest class"),
    ("sg", "no gradient reaches what follows"),
    ("⟨·⟩", "mean over the voxels inside the scan, and over classes where a term has them"),
    ("CE, Dice", "mean cross-entropy; 1 - Dice with squared denominators, all crops together"),
    ("sup(·)", "CE + Dice of the foreground classes, the same in nearly every method"),
    ("H(p)", "entropy -Σ p ln p, as a fraction of ln C, from 0 to 1"),
    ("R(t, T)", "exp(-5 (1 - min(t, T) / T)²): rises to 1 within T steps; N is the whole run"),
    ("EMA(a)", "running average of the student that keeps a fraction a of itself at each step"),
)
"""What the formulas' letters mean."""


@dataclass(frozen=True, slots=True)
class About:
    """What a method's file says."""

    reference: str
    formulas: list[str]
    readings: list[str]
    not_written: list[str]


def read_about(name: str) -> About | None:
    """The texts about a method; None for one that is not of this package."""
    path = resources.files("tracoco") / "methods" / "about" / f"{name}.yaml"
    if not path.is_file():
        return None
    values = yaml.safe_load(path.read_text(encoding="utf-8"))
    return About(**({"not_written": []} | values))


@dataclass(frozen=True, slots=True)
class MethodCost:
    """What a step of a method takes on the demo's phantoms."""

    networks: int
    """Networks that learn."""
    averaged: int
    """Networks that are averages of those."""
    decoders: int
    """Decoders of the networks that learn."""
    passes: float
    """Crops that go through a network with gradient; an encoder or a decoder alone is half."""
    passes_without_gradient: float
    time: float
    """Of a step, relative to one of `supervised`."""
    memory: float
    """At the peak of a step, relative to one of `supervised`."""


@dataclass(frozen=True, slots=True)
class Costs:
    """All that was measured, and on what."""

    methods: dict[str, MethodCost]
    machine: dict[str, Any]
    setting: str


def read_costs() -> Costs | None:
    """The measurements that come with the package; None if there are none."""
    path = resources.files("tracoco") / "methods" / "costs.json"
    if not path.is_file():
        return None
    values = json.loads(path.read_text(encoding="utf-8"))
    methods = {name: MethodCost(**cost) for name, cost in values["methods"].items()}
    return Costs(methods, values["machine"], values["setting"])


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of a method."""

    name: str
    default: Any
    about: str
    group: str
    """What the class that has it says of all of its settings, the source of their defaults too."""


def method_settings(config: type[Settings]) -> list[Setting]:
    """All settings of a method, those that it shares with others first."""
    found: dict[str, Setting] = {}
    for owner in reversed(config.__mro__):
        if issubclass(owner, Settings) and owner is not Settings:
            group = _one_line(inspect.getdoc(owner) or "")
            for name, about in documented(owner).items():
                default = config.model_fields[name].get_default(call_default_factory=True)
                found.pop(name, None)
                found[name] = Setting(name, default, about, group)
    return list(found.values())


def documented(owner: type[BaseModel]) -> dict[str, str]:
    """The docstring below each field of a class, empty where there is none."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(owner))).body
    assert isinstance(tree, ast.ClassDef)  # noqa: S101 - the source of a class
    fields: dict[str, str] = {}
    last = ""
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            last = node.target.id
            fields[last] = ""
        elif last and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            fields[last] = _one_line(str(node.value.value))
            last = ""
    return {name: about for name, about in fields.items() if name in owner.model_fields}


def _one_line(text: str) -> str:
    return " ".join(text.split())


@dataclass(frozen=True, slots=True)
class MethodEntry:
    """A method of the table with its costs; `method_details` adds its texts and its settings."""

    name: str
    row: MethodRow
    cost: MethodCost | None
    """None where nothing was measured."""
    about: About | None = None
    """None in a list, and for a method that is not of this package."""
    released_recipe: tuple[str, ...] = ()
    """How its authors train it, in a few lines; none in a list, and where it is not known."""
    settings: tuple[Setting, ...] | None = None
    """None in a list: to know them takes an import of the method."""

    @property
    def published(self) -> str:
        """Venue and year, as far as there are any."""
        return f"{self.row.venue} {self.row.year or ''}".strip()

    @property
    def cost_cells(self) -> dict[str, str]:
        """The costs as short texts; all are empty but one where nothing was measured."""
        cost = self.cost
        if cost is None:
            return {"networks": "not measured"} | dict.fromkeys(
                ("decoders", "passes", "time", "memory"), ""
            )
        averaged, without = cost.averaged, cost.passes_without_gradient
        return {
            "networks": f"{cost.networks} + {averaged}" if averaged else f"{cost.networks}",
            "decoders": f"{cost.decoders}",
            "passes": f"{cost.passes:g} + {without:g}" if without else f"{cost.passes:g}",
            "time": f"{cost.time:.1f}",
            "memory": f"{cost.memory:.1f}",
        }

    @property
    def needs(self) -> str:
        """What it needs of its run, beyond one crop of each kind; empty if nothing."""
        return self.row.needs.in_words(unlabelled=bool(self.row.trained_by_unlabelled))

    @property
    def recipes(self) -> tuple[str, ...]:
        """What `train --recipe` can be for it."""
        return ("common", "released") if has_released_recipe(self.name) else ("common",)

    def to_json(self) -> dict[str, Any]:
        """Plain values; those that were not asked for are left out."""
        values: dict[str, Any] = {
            "method": self.name,
            "family": self.row.family,
            "year": self.row.year,
            "venue": self.row.venue,
            "idea": self.row.idea,
            "faithful": self.row.faithful,
            "caution": self.row.caution,
            "teaches": list(self.row.trained_by_unlabelled),
            "dimensions": list(self.row.dimensions),
            "needs": self.needs,
            "recipes": list(self.recipes),
            **{key: getattr(self.cost, key, None) for key in COSTS},
        }
        if self.settings is None:
            return values
        texts = {key: getattr(self.about, key, None) for key in DETAILS}
        recipe = {"released_recipe": list(self.released_recipe)}
        settings = {"settings": [asdict(setting) for setting in self.settings]}
        return values | texts | recipe | settings


COSTS = tuple(field.name for field in fields(MethodCost))
DETAILS = tuple(field.name for field in fields(About))


def all_methods() -> list[MethodEntry]:
    """An entry for each method, without importing any."""
    costs = read_costs()
    measured = costs.methods if costs else {}
    return [MethodEntry(name, row, measured.get(name)) for name, row in METHODS.items()]


@dataclass(frozen=True, slots=True)
class MethodList:
    """Methods that were asked for, and what is to be said of others."""

    entries: tuple[MethodEntry, ...]
    """In order of year; those of other packages come last."""
    problems: tuple[str, ...]
    """A line for each method of an installed package that cannot be used."""


def list_methods(
    *,
    family: str | None = None,
    dimensions: int | None = None,
    max_cost: float | None = None,
    since: int | None = None,
) -> MethodList:
    """List the methods of this package, of installed packages, and those registered here.

    Args:
        family: one of `tracoco.methods.FAMILIES`, e.g. `co-training`.
        dimensions: 2 or 3, of crops that a method can be trained on.
        max_cost: time of a step, relative to `supervised`; what was not measured is left out.
        since: year of the publication.
    """
    if family is not None and family not in FAMILIES:
        raise UserError(f"family '{family}' does not exist; {did_you_mean(family, FAMILIES)}")
    if dimensions not in (None, 2, 3):
        raise UserError(f"dimensions is {dimensions}; use 2 or 3")

    def wanted(entry: MethodEntry) -> bool:
        time = entry.cost.time if entry.cost else math.inf
        return (
            family in (None, entry.row.family)
            and (dimensions is None or dimensions in entry.row.dimensions)
            and (max_cost is None or time <= max_cost)
            and (since is None or (entry.row.year or 0) >= since)
        )

    problems = load_installed()
    return MethodList(tuple(filter(wanted, all_methods())), tuple(problems))


def method_details(name: str) -> MethodEntry:
    """The entry of one method with all that is told of it; imports the method."""
    method_row(name)
    (entry,) = (each for each in all_methods() if each.name == name)
    settings = method_settings(method_class(name).Config)
    return replace(
        entry,
        about=read_about(name),
        released_recipe=tuple(recipe_lines(name)),
        settings=tuple(settings),
    )
