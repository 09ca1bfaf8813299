"""The grids of a folder and what came of their runs, as rows of tables."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from benchmarks.real import pseudo_labels, surroundings, windows
from benchmarks.real.measured import read_measured
from benchmarks.real.pseudo_labels import PseudoLabels
from benchmarks.real.surroundings import Surroundings
from benchmarks.real.windows import Windows
from tracoco.errors import UserError, raise_all
from tracoco.studies.benchmark.grid import Grid, GridRun, grid_runs, read_grid
from tracoco.studies.benchmark.results import Results, RunResult

FAILED = "failed.yaml"
"""Runs that ended without a result: `GRID: {RUN: what happened}`."""


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
    surroundings: tuple[Surroundings, ...]
    """Of runs that were measured, in the order of the grid."""
    windows: tuple[Windows, ...]
    """The same, for each overlap."""
    pseudo_labels: tuple[PseudoLabels, ...]
    """The same, for each checkpoint and pass."""

    @property
    def tried(self) -> bool:
        """Whether there is anything to show."""
        return any(row.tried for rows in self.rows.values() for row in rows)


def read_grids(root: Path) -> list[GridResults]:
    """The grids of a folder in the order of their names, with the results in `results/GRID`."""
    found = sorted(root.glob("*.yaml"), key=lambda path: path.stem)
    paths = [path for path in found if path.name != FAILED]
    known, notes = {path.stem for path in paths}, _failures(root)
    lost = [each for each in sorted((root / "results").glob("*")) if each.name not in known]
    raise_all([f"{folder} has no grid {root / folder.name}.yaml; restore it" for folder in lost])
    return [_grid_results(path, notes.get(path.stem, {})) for path in paths]


def _failures(root: Path) -> dict[str, Any]:
    path = root / FAILED
    notes = yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else None
    unknown = [name for name in notes or {} if not (root / f"{name}.yaml").exists()]
    raise_all([f"{path}: there is no grid {name}.yaml" for name in unknown])
    return notes or {}


def _grid_results(path: Path, failed: dict[str, str]) -> GridResults:
    grid = read_grid(path)
    runs, results = grid_runs(grid), Results(path.parent / "results" / path.stem)
    names = {run.name for run in runs}
    measurable = [(run.row, run.labelled, run.seed) for run in runs]
    kept = {file.stem: file for file in sorted(results.root.glob("*.json"))}
    raise_all(
        [
            *(
                f"{file} is of no run of {path.name}; a result is shown or deleted, never left out"
                for name, file in kept.items()
                if name not in names
            ),
            *(f"{FAILED}: {path.stem} has no run {name}" for name in failed if name not in names),
            *(f"{FAILED}: {name} has a result; delete the note" for name in failed if name in kept),
        ]
    )
    return GridResults(
        path.stem,
        grid,
        {
            name: _rows([run for run in runs if run.dataset == name], results, failed)
            for name in grid.datasets
        },
        read_measured(path, surroundings.KIND, Surroundings, measurable),
        read_measured(path, windows.KIND, Windows, measurable),
        read_measured(path, pseudo_labels.KIND, PseudoLabels, measurable),
    )


def _rows(runs: list[GridRun], results: Results, failed: dict[str, str]) -> tuple[Row, ...]:
    """The runs of one data set, those of a row together, in the order of the grid."""
    grouped: dict[tuple[str, int | None], list[GridRun]] = {}
    for run in runs:
        grouped.setdefault((run.row, run.labelled), []).append(run)
    return tuple(
        Row(
            name,
            labelled,
            tuple(members),
            {run.seed: found for run in members if (found := _result(run, results))},
            {run.seed: failed[run.name] for run in members if run.name in failed},
        )
        for (name, labelled), members in grouped.items()
    )


def _result(run: GridRun, results: Results) -> RunResult | None:
    """What came of a run, after a look whether it is one of the grid as it is now."""
    kept = results.read(run)
    if kept is None:
        return None
    result, config = kept[1], run.spec.config(run.seed)
    # Where the length is a time, the run itself has measured its steps; else the plan may say them.
    steps = None if config.training.minutes else config.training.steps
    asked = (run.dataset, run.seed, config.method.name, steps or result.steps)
    found = (result.dataset, result.seed, result.method, result.steps)
    if asked != found or config.data.labelled not in {None, result.labelled}:
        raise UserError(f"{results.path(run)} is not of the grid as it is now; run it again")
    return result
