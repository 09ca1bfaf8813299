"""What predictions owe to the surroundings of a voxel: measured figures, and their tables.

Two kinds: how far the predictions of shifted crops differ, and the Dice by the way in which
windows cover a scan.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from benchmarks.real.markdown import difference_text, plain, spread, table
from benchmarks.real.measured import OfRun, by_row
from tracoco.studies.benchmark.results import over_seeds

SHIFTS, WINDOWS = "shifts", "windows"
"""The kinds of figures, which are folders beside the results."""
ROWS = ("supervised", "cps", "tracoco", "supervised-all")
"""Rows of the main table that are measured."""
OURS = "tracoco"
"""The row that every other one is compared with: it is trained to predict alike in any crop."""
PAIRS = ((OURS, "cps"), (OURS, "supervised"))
SHIFTS_HEAD = ("row", "labels", "seeds", "disagreement, %", "divergence, nats", f"{OURS} lower by")
ABOUT_SHIFTS = """
How much do predictions depend on what lies around? {pairs} pairs of shifted crops of each reported
case: *disagreement* is 1 - Dice of the two predictions inside their overlap, *divergence* the mean
KL of their probabilities. Smaller is better, and neither says whether the predictions are right.
The last column is by how many points the disagreement of {ours} is below that row's, by seed
and case, with its 95 % interval.

"""
ABOUT_WINDOWS = """
What if windows overlap less, so that fewer predictions are averaged, or if the whole scan is one
window? Mean Dice of the reported cases on the grid of the network, by the fraction of a window that
its neighbour covers too; half is the default and what all other tables have. Differences are paired
by case and seed, with their 95 % intervals.

"""


@dataclass(frozen=True, slots=True)
class Surroundings(OfRun):
    """How far one run depends on them, over pairs of crops of every reported case."""

    pairs: int
    divergence: float | None
    case_disagreement: dict[str, float]
    """In percent."""

    @property
    def disagreement(self) -> float:
        """Mean over the cases."""
        return fmean(self.case_disagreement.values())


@dataclass(frozen=True, slots=True)
class Windows(OfRun):
    """Dice of one run by one way to cover a scan, of every reported case."""

    overlap: float | None
    """None where one window covers the whole scan."""
    windows: float
    """That a scan takes, in the mean."""
    case_dice: dict[str, float]
    """In percent."""

    @property
    def dice(self) -> float:
        """Mean over the cases."""
        return fmean(self.case_dice.values())


def shifts_section(found: Sequence[Surroundings]) -> str:
    """The table of a grid as Markdown; empty if nothing was measured."""
    rows = by_row(found)
    ours = {labelled: members for (labelled, row), members in rows.items() if row == OURS}
    # A row with every label is compared where ours has one number of labels alone.
    only = next(iter(ours.values())) if len(ours) == 1 else []
    cells = [
        _shift_cells(members, ours.get(labelled, [] if labelled else only))
        for (labelled, _), members in rows.items()
    ]
    about = ABOUT_SHIFTS.format(pairs=found[0].pairs, ours=OURS) if found else ""
    return about + table(SHIFTS_HEAD, cells) if found else ""


def _shift_cells(row: list[Surroundings], ours: list[Surroundings]) -> list[str]:
    return [
        plain(row[0].row),
        str(row[0].labelled or "all"),
        str(len(row)),
        spread(over_seeds(row, "disagreement")),
        spread(over_seeds(row, "divergence"), 3),
        _less(row, ours) if row != ours else "",
    ]


def _less(row: list[Surroundings], ours: list[Surroundings]) -> str:
    """By how much ours is below the row, over the seeds and cases that both have."""
    return difference_text(
        [(a.case_disagreement, b.case_disagreement) for a in row for b in ours if a.seed == b.seed]
    )


def windows_section(found: Sequence[Windows]) -> str:
    """The table of a grid as Markdown; empty if nothing was measured."""
    if not found:
        return ""
    covers = sorted({each.overlap for each in found}, key=lambda each: (each is None, each))
    rows = dict.fromkeys((each.row, each.labelled) for each in found)
    names = ("whole scan" if cover is None else f"overlap {cover:g}" for cover in covers)
    counts = [fmean(each.windows for each in found if each.overlap == at) for at in covers]
    cells = [["windows per scan", "", *(f"{count:.0f}" for count in counts)]]
    cells += [
        [plain(row), str(labelled or "all"), *(_mean(found, row, labelled, at) for at in covers)]
        for row, labelled in rows
    ]
    for first, second in PAIRS:
        cells += [
            [f"{plain(first)} − {plain(second)}", str(labelled or "all"), *differences]  # noqa: RUF001 - a minus
            for row, labelled in rows
            if row == first
            and any(differences := [_above(found, row, second, labelled, at) for at in covers])
        ]
    return ABOUT_WINDOWS + table(("row", "labels", *names), cells)


def _mean(found: Sequence[Windows], row: str, labelled: int | None, cover: float | None) -> str:
    return spread(over_seeds(list(_by_seed(found, row, labelled, cover).values()), "dice"))


def _by_seed(
    found: Sequence[Windows], row: str, labelled: int | None, cover: float | None
) -> dict[int, Windows]:
    asked = (row, labelled, cover)
    return {each.seed: each for each in found if (each.row, each.labelled, each.overlap) == asked}


def _above(
    found: Sequence[Windows], first: str, second: str, labelled: int | None, cover: float | None
) -> str:
    """By how much one row is above another, over the seeds that both have."""
    high, low = (_by_seed(found, row, labelled, cover) for row in (first, second))
    return difference_text(
        [(high[seed].case_dice, low[seed].case_dice) for seed in sorted(high.keys() & low.keys())]
    )
