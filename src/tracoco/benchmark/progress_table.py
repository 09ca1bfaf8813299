"""The grid as a table: what is done, what is under way, and when it will be over."""

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from rich.table import Table

from tracoco.benchmark.result import Spread
from tracoco.benchmark.state import RowState

FIGURES = {"dice": "Dice %", "jaccard": "Jaccard %", "hd95": "HD95", "asd": "ASD"}


def progress_table(rows: Sequence[RowState], title: str, jobs: int = 1) -> Table:
    """One line a row of the grid; the title says what is left."""
    table = Table(title=f"{title}: {_left(rows, jobs)}")
    for name in ("data", "row", "labelled", *FIGURES.values(), "missed", "seeds"):
        table.add_column(name, justify="left" if name in {"data", "row"} else "right")
    for row in rows:
        figures = [spread_text(row.figure(name)) for name in FIGURES]
        missed = str(sum(result.missed for result in row.results)) if row.results else ""
        labelled = str(row.labelled or "all")
        table.add_row(row.dataset, row.row, labelled, *figures, missed, _seeds(row))
    return table


def grid_rows(rows: Sequence[RowState]) -> list[dict[str, Any]]:
    """The same for a program: one entry a run that is done."""
    return [
        {
            "dataset": row.dataset,
            "row": row.row,
            "labelled": result.labelled,
            **{name: getattr(result, name) for name in ("method", "seed", "steps", *FIGURES)},
            "missed": result.missed,
            "seconds": result.seconds,
        }
        for row in rows
        for result in row.results
    ]


def spread_text(spread: Spread | None) -> str:
    """Mean and standard deviation, as far as they exist."""
    if spread is None:
        return ""
    return f"{spread.mean:.1f}" if spread.sd is None else f"{spread.mean:.1f} +- {spread.sd:.1f}"


def _seeds(row: RowState) -> str:
    done = len(row.results)
    under_way = [state for state in row.runs if not state.result and state.steps]
    steps = ", ".join(f"seed {s.run.seed} at {s.steps}/{s.total}" for s in under_way)
    return f"{done} of {len(row.runs)}" + (f", {steps}" if steps else "")


def _left(rows: Sequence[RowState], jobs: int) -> str:
    """What is to be done, and how long that takes at the pace of what was done."""
    runs = [state for row in rows for state in row.runs]
    open_runs = [state for state in runs if not state.result]
    if not open_runs:
        return f"all {len(runs)} runs done"
    paces = [s.result.seconds_a_step for s in runs if s.result]
    paces += [s.seconds_a_step for s in runs if s.seconds_a_step is not None]
    text = f"{len(runs) - len(open_runs)} of {len(runs)} runs done"
    if not paces:
        return text
    seconds = sum(state.seconds_left(fmean(paces)) for state in open_runs)
    return f"{text}, about {seconds / jobs / 60:.0f} minutes left"
