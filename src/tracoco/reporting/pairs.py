"""Every two evaluated runs on the cases that both have: paired differences of their Dice."""

import csv
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from tracoco.errors import UserError
from tracoco.evaluation.bootstrap import holm, paired_interval
from tracoco.evaluation.scores import Evaluation
from tracoco.files import atomic_path
from tracoco.reporting.comparison import ComparisonRow, compare_runs
from tracoco.reporting.run_record import find_scores
from tracoco.reporting.tables import add_row, new_table, write_under
from tracoco.text import UNDEFINED, number, signed

FEWEST_CASES = 6
"""With five cases not even five differences of one sign are rare: p of a sign test is 2 / 2^5."""
MEANING = (
    "difference: mean Dice of the first minus that of the second, in points, on the cases of both",
    "95 % interval and p: bootstrap over the cases, p corrected for the number of pairs (Holm); "
    "other seeds of the trainings are not covered",
)


@dataclass(frozen=True, slots=True)
class PairRow:
    """By how much the Dice of one evaluated run is above that of another, in points."""

    first: str
    first_set: str
    second: str
    second_set: str
    cases: int
    """Cases that both have, and in which the Dice of both is defined."""
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    """Two-sided, not corrected for anything."""
    p_corrected: float | None = None
    """Corrected for the number of pairs that are compared (Holm)."""
    note: str = ""
    """Why something is not known."""

    def to_json(self) -> dict[str, Any]:
        """Plain values by the names of the fields."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Comparison:
    """What `compare` finds: a row for each evaluated run, and one for every two of them."""

    rows: list[ComparisonRow]
    pairs: list[PairRow]

    def to_json(self) -> dict[str, Any]:
        """Plain values by the names of the fields."""
        return {name: [row.to_json() for row in getattr(self, name)] for name in ("rows", "pairs")}

    def write_csv(self, file: Path) -> list[Path]:
        """Write the rows, and the pairs into a second file beside it; the files written."""
        beside = file.with_name(f"{file.stem}-pairs{file.suffix}")
        _write_csv(file, ComparisonRow, [row.to_json() for row in self.rows])
        _write_csv(beside, PairRow, [pair.to_json() for pair in self.pairs])
        return [file, beside]


def _write_csv(
    path: Path, kind: type[ComparisonRow | PairRow], rows: Sequence[dict[str, Any]]
) -> None:
    with atomic_path(path) as temporary, temporary.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, [field.name for field in fields(kind)])
        writer.writeheader()
        writer.writerows(rows)


def compare_with_pairs(runs: Sequence[Path], csv_file: Path | None = None) -> Comparison:
    """Rows and pairs in the order of the runs; also written as CSV if a file is given."""
    if csv_file is not None and csv_file.suffix != ".csv":
        raise UserError(f"{csv_file} does not end with .csv; name the file e.g. runs.csv")
    found = Comparison(compare_runs(runs), compare_pairs(runs))
    if csv_file is not None:
        found.write_csv(csv_file)
    return found


def compare_pairs(runs: Sequence[Path]) -> list[PairRow]:
    """Every two evaluated folders of predictions, with Holm's correction over all of them."""
    scored = [
        (str(run), scores.name, scores.evaluation) for run in runs for scores in find_scores(run)
    ]
    pairs = [
        _compared(PairRow(*first[:2], *second[:2], cases=0), first[2], second[2])
        for first, second in combinations(scored, 2)
    ]
    corrected = iter(holm([pair.p for pair in pairs if pair.p is not None]))
    return [
        pair if pair.p is None else replace(pair, p_corrected=next(corrected)) for pair in pairs
    ]


def _compared(row: PairRow, first: Evaluation, second: Evaluation) -> PairRow:
    if first.labels != second.labels:
        return replace(row, note="other classes")
    if first.protocol.empty != second.protocol.empty:
        return replace(row, note="empty masks count differently")
    dice, other = ({case.case: case.dice for case in each.cases} for each in (first, second))
    differences = [
        mine - theirs
        for case in sorted(dice.keys() & other.keys())
        if (mine := dice[case]) is not None and (theirs := other[case]) is not None
    ]
    row = replace(row, cases=len(differences))
    if not differences:
        return replace(row, note="no case in common")
    if len(differences) < FEWEST_CASES:
        few = f"fewer than {FEWEST_CASES} cases"
        return replace(row, difference=float(np.mean(differences)), note=few)
    found = paired_interval(np.array([differences]))
    return replace(row, difference=found.mean, low=found.low, high=found.high, p=found.p)


def pairs_table(pairs: Sequence[PairRow]) -> Table:
    """One line for every two runs."""
    table = new_table(
        ("first", "second"), ("cases", "difference\npoints", "95 % interval", "p\ncorrected")
    )
    table.add_column("remark")
    several = len({pair.first_set for pair in pairs} | {pair.second_set for pair in pairs}) > 1
    names = {name for pair in pairs for name in (pair.first, pair.second)}
    for pair in pairs:
        interval = f"[{signed(pair.low)}, {signed(pair.high)}]"
        add_row(
            table,
            _name(pair.first, names) + f" ({pair.first_set})" * several,
            _name(pair.second, names) + f" ({pair.second_set})" * several,
            str(pair.cases),
            signed(pair.difference),
            UNDEFINED if pair.low is None else interval,
            "< 0.001" if (pair.p_corrected or 1) < 0.001 else number(pair.p_corrected, 3),
            pair.note,
        )
    write_under(table, MEANING)
    return table


def _name(run: str, runs: set[str]) -> str:
    """The folder's name, or all of its path where two runs share the name."""
    alike = [other for other in runs if Path(other).name == Path(run).name]
    return Path(run).name if len(alike) == 1 else run
