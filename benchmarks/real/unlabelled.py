"""Dice on the training scans whose labels are hidden: kept figures, and their table.

Nobody reports on these scans, so settings may be chosen with them.
"""

from dataclasses import dataclass
from statistics import fmean

from benchmarks.real.markdown import difference_text, plain, spread, table
from benchmarks.real.measured import OfRun, by_row
from tracoco.benchmark.result import over_seeds

KIND = "unlabelled"
BELOW = ("supervised", "cps", "tracoco")
"""Rows that every other one is compared with."""
HEAD = ("row", "labelled", "seeds", "Dice, %", *(f"above {row}" for row in BELOW))
ABOUT = """
And on the {scans} training scans whose labels are hidden from these rows? They may choose what the
reported cases may not. All rows but supervised have learnt from their images. Mean Dice on the grid
of the network; differences are paired as above.

"""


@dataclass(frozen=True, slots=True)
class Unlabelled(OfRun):
    """Dice of one run on every scan whose label was hidden from it."""

    case_dice: dict[str, float]
    """In percent."""

    @property
    def dice(self) -> float:
        """Mean over the cases."""
        return fmean(self.case_dice.values())


def unlabelled_section(found: tuple[Unlabelled, ...]) -> str:
    """The table of a grid as Markdown; empty if nothing was measured."""
    if not found:
        return ""
    rows = by_row(found)
    cells = [
        [
            plain(name),
            str(labelled or "all"),
            str(len(row)),
            spread(over_seeds(row, "dice")),
            *(_above(row, rows.get((labelled, below), [])) for below in BELOW),
        ]
        for (labelled, name), row in rows.items()
    ]
    return ABOUT.format(scans=len(found[0].case_dice)) + table(HEAD, cells)


def _above(row: list[Unlabelled], below: list[Unlabelled]) -> str:
    """By how much a row is above another one, over the seeds that both have."""
    if row == below:
        return ""
    return difference_text(
        [(a.case_dice, b.case_dice) for a in row for b in below if a.seed == b.seed]
    )
