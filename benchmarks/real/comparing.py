"""Two rows beside each other, case by case and seed by seed."""

from dataclasses import dataclass

import numpy as np

from benchmarks.real.bootstrap import Interval, paired_interval
from benchmarks.real.rows import Row
from tracoco.errors import UserError

REFERENCE = "supervised"
"""The row that every other one is compared with."""
PAIRS = (
    ("tracoco", "cps"),
    ("cps", REFERENCE),
    ("tracoco", REFERENCE),
    ("tracoco", "tracoco-ce"),
    ("tracoco-ce", "cps"),
)
"""The questions of the page, in the order of its tables."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """By how much the Dice of one row is above that of another."""

    first: str
    second: str
    interval: Interval
    seeds: tuple[int, ...]
    """Those that both rows have; only they are compared."""
    left_out: tuple[int, ...]
    """Those that one of them has."""
    cases: int


def comparisons(rows: tuple[Row, ...]) -> list[Comparison]:
    """The pairs that are asked about, then every other row against the reference."""
    named = {row.name: row for row in rows}
    asked = [pair for pair in PAIRS if {*pair} <= named.keys()]
    if REFERENCE in named:
        every = [(name, REFERENCE) for name in named if name != REFERENCE]
        asked += [pair for pair in every if pair not in asked]
    found = [compare(named[first], named[second]) for first, second in asked]
    return [comparison for comparison in found if comparison]


def compare(first: Row, second: Row) -> Comparison | None:
    """Compare what two rows have in common; None if they share no seed."""
    seeds = sorted(first.results.keys() & second.results.keys())
    if not seeds:
        return None
    runs = [row.results[seed].case_dice for row in (first, second) for seed in seeds]
    cases = sorted({case for run in runs for case in run})
    missing = [case for case in cases if any(case not in run for run in runs)]
    if missing:
        raise UserError(
            f"'{first.name}' and '{second.name}' cannot be paired: not every run has the case "
            f"'{missing[0]}'; test all of them on the same cases"
        )
    values = np.array([[run[case] for case in cases] for run in runs])
    differences = values[: len(seeds)] - values[len(seeds) :]
    return Comparison(
        first.name,
        second.name,
        paired_interval(differences),
        tuple(seeds),
        tuple(sorted(first.results.keys() ^ second.results.keys())),
        len(cases),
    )
