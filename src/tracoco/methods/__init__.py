"""The table of methods: plain facts, so that listing them imports no torch.

A new method is one file (its settings and its class) and one row here; nothing else in the
package knows its name.
"""

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from tracoco.config import did_you_mean
from tracoco.errors import UserError

if TYPE_CHECKING:
    from tracoco.methods.method import Method


@dataclass(frozen=True, slots=True)
class MethodRow:
    """What is known of a method without building it."""

    target: str
    """`module:Class`."""
    year: int | None
    """Of the publication; none for what is older than the field."""
    idea: str
    taught: tuple[str, ...]
    """Modules that unlabelled crops teach; a method without any is given no unlabelled crops."""


METHODS = {
    "supervised": MethodRow(
        target="tracoco.methods.supervised:Supervised",
        year=None,
        idea="Learn from the labelled scans alone: the bound that the others must beat.",
        taught=(),
    ),
    "tracoco": MethodRow(
        target="tracoco.methods.tracoco:TraCoCo",
        year=2024,
        idea="Two networks teach each other and answer alike wherever two crops overlap.",
        taught=("networks.0", "networks.1"),
    ),
}


def method_row(name: str) -> MethodRow:
    """The row of a method, or an error that names the nearest one."""
    if name not in METHODS:
        raise UserError(f"method '{name}' does not exist; {did_you_mean(name, METHODS)}")
    return METHODS[name]


def method_class(name: str) -> "type[Method]":
    """Import a method's class."""
    module, _, attribute = method_row(name).target.partition(":")
    found: type[Method] = getattr(import_module(module), attribute)
    return found
