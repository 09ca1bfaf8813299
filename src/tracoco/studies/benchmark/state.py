"""How far the runs of a grid are, read from the disk, and the table that shows it."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.table import Table

from tracoco.config import Config
from tracoco.runs.folder import RunFolder
from tracoco.studies.benchmark.grid import GridRun
from tracoco.studies.benchmark.results import Results, RunResult, Spread, over_seeds
from tracoco.studies.benchmark.runner import Runner
from tracoco.text import duration
from tracoco.training.train import with_recorded_steps

TAIL = 65536
"""Bytes at the end of a log that hold its last record for certain."""


@dataclass(frozen=True, slots=True)
class RunState:
    """One run: its result, or the steps it has taken."""

    run: GridRun
    steps: int
    total: int
    seconds_a_step: float | None = None
    result: RunResult | None = None
    minutes: float | None = None
    """Time that a run is given which has not begun, where its length is a time."""

    def seconds_left(self, seconds_a_step: float) -> float:
        """Until the run ends, at this pace."""
        return 60 * self.minutes if self.minutes else (self.total - self.steps) * seconds_a_step


@dataclass(frozen=True, slots=True)
class RowState:
    """All seeds of one row of the table."""

    dataset: str
    row: str
    labelled: int | None
    runs: tuple[RunState, ...]

    @property
    def results(self) -> list[RunResult]:
        """Of the seeds that are done."""
        return [state.result for state in self.runs if state.result]

    @property
    def done(self) -> bool:
        """Whether all seeds are."""
        return all(state.result for state in self.runs)

    def figure(self, name: str) -> Spread | None:
        """Mean and spread over the seeds that are done."""
        return over_seeds(self.results, name)


@dataclass(frozen=True, slots=True)
class Watched:
    """A run, where it lies, and its settings."""

    run: GridRun
    folder: Path
    config: Config


class Watch:
    """Looks at all runs of a grid again and again; what cannot change is read once."""

    def __init__(
        self, runs: Sequence[GridRun], runners: Mapping[str, Runner], results: Results
    ) -> None:
        self._results = results
        self._found = dict[GridRun, RunResult]()
        self._watched = [
            Watched(
                run,
                runners[run.dataset].folder(run.spec, run.seed),
                runners[run.dataset].config(run.spec, run.seed),
            )
            for run in runs
        ]

    def rows(self) -> list[RowState]:
        """The table as it stands, in the order of the grid."""
        rows: dict[tuple[str, str, int | None], list[RunState]] = {}
        for each in self._watched:
            key = (each.run.dataset, each.run.row, each.run.labelled)
            rows.setdefault(key, []).append(self._state(each))
        return [RowState(*key, tuple(states)) for key, states in rows.items()]

    def _state(self, watched: Watched) -> RunState:
        """Look at the result, else at the last line of the log."""
        run, folder = watched.run, RunFolder(watched.folder)
        result = self._found.get(run) or self._results.find(run, watched.folder)
        if result:
            self._found[run] = result
            return RunState(run, result.steps, result.steps, result=result)
        record = _last_record(folder.log_file)
        total = with_recorded_steps(watched.config, folder).training.length
        if record is None:
            return RunState(run, 0, total, minutes=watched.config.training.minutes)
        return RunState(run, record["step"] + 1, total, record["seconds"])


def _last_record(log: Path) -> dict[str, Any] | None:
    """The last whole line of a log that somebody is writing."""
    if not log.exists():
        return None
    with log.open("rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(0, file.tell() - TAIL))
        lines = file.read().split(b"\n")[:-1]
    record: dict[str, Any] | None = json.loads(lines[-1]) if lines else None
    return record


ABOUT = ("method", "recipe", "seed", "steps")
FIGURES = {"dice": "Dice %", "jaccard": "Jaccard %", "hd95": "HD95", "asd": "ASD"}


def progress_table(rows: Sequence[RowState], title: str, jobs: int = 1) -> Table:
    """One line a row of the grid; the title says what is left."""
    table = Table(title=f"{title}: {_left(rows, jobs)}")
    for name in ("data", "row", "recipe", "labelled", *FIGURES.values(), "missed", "seeds"):
        table.add_column(name, justify="left" if name in {"data", "row", "recipe"} else "right")
    for row in rows:
        figures = [spread_text(row.figure(name)) for name in FIGURES]
        missed = str(sum(result.missed for result in row.results)) if row.results else ""
        labelled = str(row.labelled or "all")
        recipe = row.results[0].recipe if row.results else ""
        table.add_row(row.dataset, row.row, recipe, labelled, *figures, missed, _seeds(row))
    return table


def grid_rows(rows: Sequence[RowState]) -> list[dict[str, Any]]:
    """The same for a program: one entry a run that is done."""
    return [
        {
            "dataset": row.dataset,
            "row": row.row,
            "labelled": result.labelled,
            **{
                name: getattr(result, name)
                for name in ("method", "recipe", "seed", "steps", *FIGURES)
            },
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
    return f"{text}, about {duration(seconds / jobs)} of training left"
