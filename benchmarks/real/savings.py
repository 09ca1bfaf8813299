"""How many labels unlabelled scans save: where the supervised curve reaches the Dice of TraCoCo."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.real.comparing import listed
from benchmarks.real.rows import GridResults, Row
from tracoco.evaluation.bootstrap import LIMITS, resampled_means

REFERENCE, OURS, ALL = "supervised", "tracoco", "supervised-all"
Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Saving:
    """The number of labels with which supervised learning is as good as ours with fewer."""

    labelled: int
    """Labels of ours."""
    unlabelled: int
    equal: float
    """Labels of supervised learning; infinite if it is not as good with all of them."""
    low: float
    high: float
    """Limits of the 95 % interval."""
    fewest: int
    most: int
    """Ends of the supervised curve."""

    @property
    def significant(self) -> bool:
        """Whether the interval leaves out that nothing is saved."""
        return self.low > self.labelled or self.high < self.labelled

    def count(self, labels: float) -> str:
        """A number of labels, or that it lies beyond the end of the curve."""
        if np.isinf(labels):
            return f"more than {self.most}"
        return f"at most {self.fewest}" if labels <= self.fewest else f"{labels:.0f}"

    @property
    def text(self) -> str:
        """The number of labels with its interval."""
        return f"{self.count(self.equal)} [{self.count(self.low)}, {self.count(self.high)}]"


def saving(grid: GridResults, labelled: int) -> Saving | None:
    """What ours with so many labels is worth; None while a run of a curve is missing."""
    ours, curve = grid.named(OURS, labelled), _curve(grid)
    if ours is None or len(curve) < 2:
        return None
    rows = [*curve, ours]
    if any(len(row.results) < len(row.runs) for row in rows):
        return None
    seeds = sorted(set.intersection(*(set(row.results) for row in rows)))
    cases = sorted(next(iter(ours.results.values())).case_dice)
    dice = np.array([[[r.results[s].case_dice[c] for c in cases] for s in seeds] for r in rows])
    counts = [next(iter(row.results.values())).labelled for row in curve]
    means = dice.mean(axis=(1, 2))
    draws = np.array([resampled_means(row) for row in dice])  # the same seeds and cases for all
    found = np.array([crossing(counts, each[:-1], each[-1]) for each in draws.T])
    # Of sorted values, not between two of them: some may be infinite.
    low, high = np.quantile(found, LIMITS, method="inverted_cdf")
    equal = crossing(counts, means[:-1], means[-1])
    unlabelled = next(iter(ours.results.values())).unlabelled
    return Saving(labelled, unlabelled, equal, float(low), float(high), counts[0], counts[-1])


def crossing(counts: Sequence[int], dice: Array, wanted: float) -> float:
    """The number of labels at which a curve reaches a Dice, linear in the logarithm of the number.

    A curve that falls keeps its largest value. The first number of labels stands for all below it,
    and a Dice that is never reached has no number: infinity.
    """
    rising = np.maximum.accumulate(dice)
    if wanted > rising[-1]:
        return float("inf")
    end = int(np.argmax(rising >= wanted))
    if end == 0:
        return float(counts[0])
    fraction = (wanted - rising[end - 1]) / (rising[end] - rising[end - 1])
    low, high = np.log(counts[end - 1]), np.log(counts[end])
    return float(np.exp(low + fraction * (high - low)))


def headline(found: Sequence[tuple[str, Saving]]) -> str:
    """The answer in one sentence per data set; empty while there is none."""
    return " ".join(_sentence(name, each) for name, each in found)


def _sentence(name: str, each: Saving) -> str:
    ours = f"TraCoCo with {each.labelled} labelled and {each.unlabelled} unlabelled scans"
    if np.isinf(each.equal):
        text = f"On {name}, {ours} is above supervised learning with all {each.most} labels"
        return f"{text} (95 % interval of the labels that it stands for: {_limits(each)})."
    text = f"On {name}, {ours} is as good as supervised learning with {each.count(each.equal)} "
    text += f"labelled scans (95 % interval {_limits(each)})"
    saved = round(each.equal) - each.labelled
    if each.significant and saved > 0:
        return f"{text}: unlabelled scans save {saved} labels."
    if each.significant:
        return f"{text}: unlabelled scans cost {-saved} labels."
    return f"{text}: the saving is not significant."


def _limits(each: Saving) -> str:
    return f"{each.count(each.low)} to {each.count(each.high)}"


def missing_rows(grid: GridResults, labelled: int) -> str:
    """Rows without which the saving is not known."""
    rows = [*_curve(grid), *([ours] if (ours := grid.named(OURS, labelled)) else [])]
    numbers: dict[str, list[str]] = {}
    for row in rows:
        if len(row.results) < len(row.runs):
            name = REFERENCE if row.name == ALL else row.name
            numbers.setdefault(name, []).append(str(row.labelled or "all"))
    return listed([f"{name} with {listed(each)} labels" for name, each in numbers.items()])


def _curve(grid: GridResults) -> list[Row]:
    rows = [row for found in grid.rows.values() for row in found]
    few = [row for row in rows if row.name == REFERENCE and row.labelled]
    every = [row for row in rows if row.name == ALL]
    return [*sorted(few, key=lambda row: row.labelled or 0), *every]
