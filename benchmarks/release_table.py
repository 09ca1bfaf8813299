"""What releases and this package make of the same numbers, side by side."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.release_cases import CASES

FILE = Path(__file__).with_name("release_values.json")
"""For each loss term its formula in words, the release that it was read in, and the value and some
entries of the gradient that the formula gives for the inputs of the case."""
BOUNDS = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)


@dataclass(frozen=True, slots=True)
class Compared:
    """One loss term."""

    methods: tuple[str, ...]
    term: str
    formula: str
    source: str
    release: tuple[float, ...]
    """The value, then entries of the gradient."""
    ours: tuple[float, ...]

    @property
    def difference(self) -> float:
        """The largest of value and gradient, each as a fraction of how large it is."""
        (value, *slopes), (own, *own_slopes) = self.release, self.ours
        found = [abs(own - value) / abs(value)]
        largest = max(map(abs, slopes), default=1.0)
        pairs = zip(own_slopes, slopes, strict=True)
        return max(found + [abs(here - there) / largest for here, there in pairs])

    def cells(self) -> list[str]:
        """For a table; differences by the power of ten that they stay below."""
        bound = next((each for each in BOUNDS if self.difference < each), None)
        (value, *slopes), (own, *own_slopes) = self.release, self.ours
        return [
            ", ".join(f"[{name}](#{name})" for name in self.methods),
            self.term,
            self.formula,
            f"{value:.5g}",
            f"{own:.5g}",
            ", ".join(f"{each:.4g}" for each in slopes),
            ", ".join(f"{each:.4g}" for each in own_slopes),
            f"{self.difference:.2g}" if bound is None else f"< {bound:g}",
        ]


def compared() -> list[Compared]:
    """All loss terms of the file."""
    return [_compared(row) for row in _content()["rows"]]


def without_release() -> dict[str, str]:
    """Methods that no row is about, and why."""
    found: dict[str, str] = _content()["without"]
    return found


def table() -> str:
    """The rows of a Markdown table."""
    return "".join(f"| {' | '.join(row.cells())} |\n" for row in compared())


def _compared(row: dict[str, Any]) -> Compared:
    value, gradient = CASES[row["case"]].measure()
    entries = row["gradient"]
    return Compared(
        tuple(row["methods"]),
        row["term"],
        row["formula"],
        row["source"],
        (row["value"], *(entry["value"] for entry in entries)),
        (value, *(gradient[tuple(entry["at"])].item() for entry in entries)),
    )


def _content() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return content
