"""The grids of a folder and what came of their runs, as rows of tables."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from benchmarks.real.collect import FAILED, Values, committed_file, grid_paths, read_committed
from benchmarks.real.context import SHIFTS, WINDOWS, Surroundings, Windows
from benchmarks.real.measured import read_measured
from tracoco.errors import UserError, raise_all
from tracoco.studies.benchmark.grid import Grid, GridRun, grid_runs, read_grid
from tracoco.studies.benchmark.results import RunResult, kept_result


@dataclass(frozen=True, slots=True)
class Row:
    """All seeds of one way of training."""

    name: str
    labelled: int | None
    """None for all."""
    runs: tuple[GridRun, ...]
    results: dict[int, RunResult]
    """By seed, of the runs that are done."""
    failed: dict[int, str]
    """By seed, what a run ended with."""

    @property
    def tried(self) -> bool:
        """Whether any run came to an end, good or bad."""
        return bool(self.results or self.failed)


@dataclass(frozen=True, slots=True)
class GridResults:
    """A grid, and its rows on each of its data sets."""

    name: str
    grid: Grid
    rows: dict[str, tuple[Row, ...]]
    shifts: tuple[Surroundings, ...]
    """Of runs that were measured, in the order of the grid."""
    windows: tuple[Windows, ...]
    """The same, for each way to cover a scan."""

    @property
    def tried(self) -> bool:
        """Whether there is anything to show."""
        return any(row.tried for rows in self.rows.values() for row in rows)

    @property
    def missing(self) -> list[str]:
        """Names of the runs that have neither a result nor a note of why there is none."""
        return [
            run.name
            for rows in self.rows.values()
            for row in rows
            for run in row.runs
            if run.seed not in row.results and run.seed not in row.failed
        ]

    def named(self, row: str, labelled: int | None = None) -> Row | None:
        """The row of this name; with several numbers of labels, the one of this number."""
        found = [each for rows in self.rows.values() for each in rows if each.name == row]
        chosen = [each for each in found if each.labelled == labelled] or found[: len(found) == 1]
        return chosen[0] if chosen else None


def read_grids(root: Path) -> list[GridResults]:
    """The grids of a folder in the order of their names, with their committed results."""
    paths = grid_paths(root)
    known, notes = {path.stem for path in paths}, _failures(root)
    lost = [each for each in sorted((root / "results").glob("*")) if each.stem not in known]
    raise_all([f"{file} has no grid {root / file.stem}.yaml; restore it" for file in lost])
    return [_grid_results(path, notes.get(path.stem, {})) for path in paths]


def _failures(root: Path) -> dict[str, Any]:
    path = root / FAILED
    notes = yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else None
    unknown = [name for name in notes or {} if not (root / f"{name}.yaml").exists()]
    raise_all([f"{path}: there is no grid {name}.yaml" for name in unknown])
    return notes or {}


def _grid_results(path: Path, failed: dict[str, str]) -> GridResults:
    grid = read_grid(path)
    runs, file = grid_runs(grid), committed_file(path.parent, path.stem)
    names = {run.name for run in runs}
    kept = read_committed(file)
    raise_all(
        [
            *(
                f"{file}: {name} is of no run of {path.name}; a result is shown or deleted, never "
                "left out"
                for name in kept
                if name not in names
            ),
            *(f"{FAILED}: {path.stem} has no run {name}" for name in failed if name not in names),
            *(f"{FAILED}: {name} has a result; delete the note" for name in failed if name in kept),
        ]
    )
    results = {run.name: _result(run, kept[run.name], file) for run in runs if run.name in kept}
    measurable = [(run.row, run.labelled, run.seed) for run in runs]
    return GridResults(
        path.stem,
        grid,
        {
            name: _rows([run for run in runs if run.dataset == name], results, failed)
            for name in grid.datasets
        },
        read_measured(path, SHIFTS, Surroundings, measurable),
        read_measured(path, WINDOWS, Windows, measurable),
    )


def _rows(
    runs: list[GridRun], results: dict[str, RunResult], failed: dict[str, str]
) -> tuple[Row, ...]:
    """The runs of one data set, those of a row together, in the order of the grid."""
    grouped: dict[tuple[str, int | None], list[GridRun]] = {}
    for run in runs:
        grouped.setdefault((run.row, run.labelled), []).append(run)
    return tuple(
        Row(
            name,
            labelled,
            tuple(members),
            {run.seed: results[run.name] for run in members if run.name in results},
            {run.seed: failed[run.name] for run in members if run.name in failed},
        )
        for (name, labelled), members in grouped.items()
    )


def _result(run: GridRun, values: Values, file: Path) -> RunResult:
    """What came of a run, after a look whether it is one of the grid as it is now."""
    result, config = kept_result(values, file)[1], run.spec.config(run.seed)
    # Where the length is a time, the run itself has measured its steps; else the plan may say them.
    steps = None if config.training.minutes else config.training.steps
    asked = (run.dataset, run.seed, config.method.name, steps or result.steps)
    found = (result.dataset, result.seed, result.method, result.steps)
    if asked != found or config.data.labelled not in {None, result.labelled}:
        raise UserError(f"{file}: {run.name} is not of the grid as it is now; run it again")
    return result
