"""One line of the table: what was measured, by us and by them, and whether the target is met."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

RESULTS = Path(__file__).with_name("performance.json")
"""The file of results."""
KEYS = ("what", "against", "ours", "theirs", "unit", "ratio", "target", "met", "detail")
"""Of a row in that file."""


@dataclass(frozen=True, slots=True)
class Row:
    """A measurement; `ratio` is compared with `target`."""

    what: str
    against: str
    """What people use, or what ours is a part of."""
    ours: float
    theirs: float | None
    """None where a figure stands for itself."""
    unit: str
    """Of both, e.g. "s"."""
    ratio: float
    """How many times faster or smaller, as the target means it."""
    better: Literal["at least", "at most"]
    bound: float
    detail: str = ""
    """What else was seen, for the page."""

    @property
    def target(self) -> str:
        """The target in words."""
        return f"{self.better} {self.bound:g}"

    @property
    def met(self) -> bool:
        """Whether the ratio is on the right side of its bound."""
        return self.ratio >= self.bound if self.better == "at least" else self.ratio <= self.bound

    def to_json(self) -> dict[str, Any]:
        """Plain values, for the file of results."""
        return {key: _short(getattr(self, key)) for key in KEYS}


def faster(what: str, against: str, seconds: tuple[float, float], bound: float, detail: str) -> Row:
    """A row of two durations, ours and theirs, whose quotient has to reach `bound`."""
    ours, theirs = seconds
    return Row(what, against, ours, theirs, "s", theirs / ours, "at least", bound, detail)


def part(
    what: str, against: str, amounts: tuple[float, float], unit: str, bound: float, detail: str
) -> Row:
    """A row whose first amount may be at most `bound` times the second."""
    ours, theirs = amounts
    return Row(what, against, ours, theirs, unit, ours / theirs, "at most", bound, detail)


def _short(value: Any) -> Any:
    """Four digits: more would be noise."""
    return float(f"{value:.4g}") if isinstance(value, float) else value
