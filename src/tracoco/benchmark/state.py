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
from tracoco.benchmark.runner import Runner
from tracoco.config import Config
from tracoco.experiment.length import with_recorded_steps
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
