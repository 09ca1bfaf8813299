"""Two rows beside each other, case by case and seed by seed, and what comes of it in words."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.real.rows import Row
from tracoco.errors import UserError
from tracoco.evaluation.bootstrap import LEVEL, Interval, holm, paired_interval

REFERENCE = "supervised"
"""The row that the others of a table are compared with."""
Pair = tuple[str, str]
PAIRS: tuple[Pair, ...] = (
    ("tracoco", REFERENCE),
    ("tracoco", "supervised-minutes"),
    ("tracoco", "cps"),
    ("tracoco", "bcp"),
    ("tracoco", "tracoco-ce"),
    ("cps", REFERENCE),
    ("bcp", REFERENCE),
)
"""The questions of the main table, in their order; Holm's correction is over those of one table."""


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
    p: float = 1.0
    """Corrected for the number of comparisons of the table."""

    @property
    def significant(self) -> bool:
        """Whether the corrected p value is below the level."""
        return self.p < LEVEL


def comparisons(rows: Sequence[Row], pairs: Iterable[Pair]) -> list[Comparison]:
    """Those of the pairs that have results, with Holm's correction over all of them."""
    named = {row.name: row for row in rows}
    asked = [pair for pair in pairs if {*pair} <= named.keys()]
    found = [each for a, b in asked if (each := compare(named[a], named[b]))]
    corrected = holm([each.interval.p for each in found])
    return [replace(each, p=p) for each, p in zip(found, corrected, strict=True)]


def against_reference(rows: Sequence[Row]) -> list[Pair]:
    """Every row with few labels against the reference."""
    return [(row.name, REFERENCE) for row in rows if row.name != REFERENCE and row.labelled]


def one_after_the_other(rows: Sequence[Row]) -> list[Pair]:
    """Every row against the one before it."""
    return [(rows[index].name, rows[index - 1].name) for index in range(1, len(rows))]


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
    interval = paired_interval(values[: len(seeds)] - values[len(seeds) :])
    left_out = tuple(sorted(first.results.keys() ^ second.results.keys()))
    return Comparison(first.name, second.name, interval, tuple(seeds), left_out, len(cases))


def sentence(first: str, second: str, found: Sequence[tuple[str, Comparison]]) -> str:
    """What the comparisons of two rows say, in one sentence; empty without any.

    Args:
        first: the row, as the sentence is to call it.
        second: the other one.
        found: a comparison for each data set, with the data set's name.
    """
    parts = []
    for word, wanted in (("above", 1), ("below", -1)):
        sure = [
            f"on {name} by {abs(c.interval.mean):.1f} points of Dice {limits(c, wanted)}, "
            f"{p_text(c.p)}"
            for name, c in found
            if c.significant and c.interval.mean * wanted > 0
        ]
        if sure:
            parts.append(f"{first} is {word} {second} {listed(sure)}")
    unsure = [
        f"on {name} ({c.interval.mean:+.1f} {limits(c)}, {p_text(c.p)})"
        for name, c in found
        if not c.significant
    ]
    if unsure:
        names = "" if parts else f" between {first} and {second}"
        parts.append(f"{listed(unsure)} the difference{names} is not significant")
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def limits(comparison: Comparison, sign: int = 0) -> str:
    """The limits of the interval; with a sign, those of how far one row is from the other."""
    low, high = comparison.interval.low, comparison.interval.high
    if sign:
        low, high = sorted((sign * low, sign * high))
        return f"[{low:.1f}, {high:.1f}]"
    return f"[{low:+.1f}, {high:+.1f}]"


def p_text(p: float) -> str:
    """A p value as papers print it."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}" if p < 0.1 else f"p = {p:.2f}"


def listed(parts: Sequence[str]) -> str:
    """Words one after the other, with an `and` before the last."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 2 else list(parts))
