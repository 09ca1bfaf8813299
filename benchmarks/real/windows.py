"""Dice by how far the windows of a scan overlap: kept figures, and their table."""

from dataclasses import dataclass
from statistics import fmean

from benchmarks.real.markdown import difference_text, plain, spread, table
from benchmarks.real.measured import OfRun
from tracoco.studies.benchmark.results import over_seeds

KIND = "windows"
PAIRS = (("tracoco", "cps"), ("tracoco-ce", "cps"))
"""Differences below the table: the methods that answer alike in any crop, and one that need not."""
ABOUT = """
What if windows overlap less, so that fewer predictions are averaged? Mean Dice of the reported
cases on the grid of the network, by the fraction of a window that its neighbour covers too; half is
the default and what all other tables have. Differences are paired as above.

"""


@dataclass(frozen=True, slots=True)
class Windows(OfRun):
    """Dice of one run with one overlap, of every reported case."""

    overlap: float
    windows: float
    """That a scan takes, in the mean."""
    case_dice: dict[str, float]
    """In percent."""

    @property
    def dice(self) -> float:
        """Mean over the cases."""
        return fmean(self.case_dice.values())


def windows_section(found: tuple[Windows, ...]) -> str:
    """The table of a grid as Markdown; empty if nothing was measured."""
    if not found:
        return ""
    overlaps = sorted({each.overlap for each in found})
    rows = dict.fromkeys((each.row, each.labelled) for each in found)
    head = ("row", "labelled", *(f"overlap {overlap:g}" for overlap in overlaps))
    counts = [fmean(each.windows for each in found if each.overlap == at) for at in overlaps]
    cells = [["windows a scan", "", *(f"{count:.0f}" for count in counts)]]
    cells += [
        [plain(row), str(labelled or "all"), *(_mean(found, row, labelled, at) for at in overlaps)]
        for row, labelled in rows
    ]
    for first, second in PAIRS:
        cells += [
            [f"{plain(first)} − {plain(second)}", str(labelled or "all"), *differences]  # noqa: RUF001 - a minus
            for row, labelled in rows
            if row == first
            and any(differences := [_above(found, row, second, labelled, at) for at in overlaps])
        ]
    return ABOUT + table(head, cells)


def _mean(found: tuple[Windows, ...], row: str, labelled: int | None, overlap: float) -> str:
    return spread(over_seeds(list(_by_seed(found, row, labelled, overlap).values()), "dice"))


def _by_seed(
    found: tuple[Windows, ...], row: str, labelled: int | None, overlap: float
) -> dict[int, Windows]:
    asked = (row, labelled, overlap)
    return {each.seed: each for each in found if (each.row, each.labelled, each.overlap) == asked}


def _above(
    found: tuple[Windows, ...], first: str, second: str, labelled: int | None, overlap: float
) -> str:
    """By how much one row is above another, over the seeds that both have."""
    high, low = (_by_seed(found, row, labelled, overlap) for row in (first, second))
    return difference_text(
        [(high[seed].case_dice, low[seed].case_dice) for seed in sorted(high.keys() & low.keys())]
    )
