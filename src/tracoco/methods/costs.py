"""What a step of each method costs, as `benchmarks/method_costs.py` has measured it."""

import json
from dataclasses import dataclass
from importlib import resources
from typing import Any


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
