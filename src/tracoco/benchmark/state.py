"""How far the runs of a grid are, read from the disk: whoever works on them need not be asked."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracoco.benchmark.grid import GridRun
from tracoco.benchmark.kept import Results
from tracoco.benchmark.result import RunResult, Spread, over_seeds
from tracoco.training.run_folder import RunFolder

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

    def figure(self, name: str) -> Spread | None:
        """Mean and spread over the seeds that are done."""
        return over_seeds(self.results, name)


def run_state(run: GridRun, folder: Path, results: Results) -> RunState:
    """Look at the result, else at the last line of the log."""
    total = run.spec.config(run.seed).training.steps
    kept = results.find(run, folder)
    if kept:
        return RunState(run, total, total, result=kept.result)
    record = _last_record(RunFolder(folder).log_file)
    if record is None:
        return RunState(run, 0, total)
    return RunState(run, record["step"] + 1, total, record["seconds"])


def row_states(
    runs: Sequence[GridRun], folders: Mapping[GridRun, Path], results: Results
) -> list[RowState]:
    """The table as it stands, in the order of the grid."""
    rows: dict[tuple[str, str, int | None], list[RunState]] = {}
    for run in runs:
        key = (run.dataset, run.row, run.labelled)
        rows.setdefault(key, []).append(run_state(run, folders[run], results))
    return [RowState(*key, tuple(states)) for key, states in rows.items()]


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
