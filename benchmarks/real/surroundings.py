"""How much the predictions of runs depend on what lies around: kept figures, and their table."""

from dataclasses import dataclass
from statistics import fmean

from benchmarks.real.markdown import difference_text, plain, spread, table
from benchmarks.real.measured import OfRun, by_row
from tracoco.studies.benchmark.results import over_seeds

KIND = "surroundings"
OURS = "tracoco"
"""The row that every other one is compared with: it is trained to answer alike in any crop."""
HEAD = ("row", "labelled", "seeds", "disagreement, %", "divergence, nats", f"{OURS} lower by")
ABOUT = """
How much do predictions depend on what lies around? {pairs} pairs of shifted crops of each reported
case: *disagreement* is 1 - Dice of the two predictions inside their overlap, *divergence* the mean
KL of their probabilities. Smaller is better, and neither says whether the predictions are right.
The last column is by how many points the disagreement of {ours} is below that row's, by seed
and case, with its 95 % interval.

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


def surroundings_section(found: tuple[Surroundings, ...]) -> str:
    """The table of a grid as Markdown; empty if nothing was measured."""
    rows = by_row(found)
    ours = {labelled: members for (labelled, row), members in rows.items() if row == OURS}
    # A row with every label is compared where ours has one number of labels alone.
    only = next(iter(ours.values())) if len(ours) == 1 else []
    cells = [
        _cells(members, ours.get(labelled, [] if labelled else only))
        for (labelled, _), members in rows.items()
    ]
    return ABOUT.format(pairs=found[0].pairs, ours=OURS) + table(HEAD, cells) if found else ""


def _cells(row: list[Surroundings], ours: list[Surroundings]) -> list[str]:
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
