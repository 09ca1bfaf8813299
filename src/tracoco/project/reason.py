"""A value of a plan with its reason, and the words that reasons share."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reason:
    """One value of a plan."""

    name: str
    value: str
    why: str
    numbers: str
    """What was measured."""


def or_by_hand(why: str, value: object, follows: object) -> str:
    """The reason, unless a person chose another value than the data would give."""
    if value == follows:
        return why
    return f"set by hand or by a recipe; from the data it would be {_plain(follows)}"


def _plain(value: object) -> str:
    if isinstance(value, tuple):
        return sides(value)
    return "null" if value is None else str(value)


def sides(values: Sequence[float | None]) -> str:
    """Numbers by axis."""
    return " x ".join("as scanned" if value is None else f"{value:g}" for value in values)


def value_range(values: Sequence[float]) -> str:
    """From the least to the largest."""
    low, high = min(values), max(values)
    return f"{low:g}" if low == high else f"{low:g}-{high:g}"
