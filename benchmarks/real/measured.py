"""What was measured of trained runs beside their results: one file per grid and kind of figure."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tracoco.errors import UserError
from tracoco.files import read_json, write_json
from tracoco.project.folder import Project
from tracoco.studies.benchmark.grid import GridRun, grid_runs, read_grid
from tracoco.studies.benchmark.runner import Runner, steps_done

RunKey = tuple[str, int | None, int]
"""Row, number of labels or None for all, and seed."""


@dataclass(frozen=True, slots=True)
class OfRun:
    """Figures that say which run they are of."""

    row: str
    labelled: int | None
    """None for all."""
    seed: int
    folder: str
    """Name of the run's folder, which changes with every setting and every scan."""

    @property
    def run(self) -> RunKey:
        """The run that was measured."""
        return self.row, self.labelled, self.seed


Figures = TypeVar("Figures", bound=OfRun)


def by_row(found: Sequence[Figures]) -> dict[tuple[int | None, str], list[Figures]]:
    """The seeds of each number of labels and row together, in the order that they came in."""
    rows: dict[tuple[int | None, str], list[Figures]] = {}
    for each in found:
        rows.setdefault((each.labelled, each.row), []).append(each)
    return rows


def kept_in(root: Path, kind: str, name: str) -> Path:
    """The file of a grid, beside its results."""
    return root / kind / f"{name}.json"


def keep(root: Path, kind: str, name: str, rows: list[dict[str, Any]]) -> Path:
    """Write figures in place of those of the same runs; what was measured elsewhere is kept."""
    path = kept_in(root, kind, name)
    measured = {_run(row) for row in rows}
    others = [row for row in _rows(path) if _run(row) not in measured]
    write_json(path, {"rows": [*others, *rows]})
    return path


def measured_folders(root: Path, kind: str, name: str) -> set[str]:
    """Names of the folders of the runs that were measured."""
    return {row["folder"] for row in _rows(kept_in(root, kind, name))}


def _rows(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = read_json(path)["rows"] if path.exists() else []
    return rows


def _run(row: dict[str, Any]) -> RunKey:
    return row["row"], row["labelled"], row["seed"]


def read_measured(
    grid: Path, kind: str, make: Callable[..., Figures], runs: list[RunKey]
) -> tuple[Figures, ...]:
    """What was measured of the runs of a grid, in their order; nothing if nothing was."""
    path = kept_in(grid.parent, kind, grid.stem)
    found = [make(**row) for row in _rows(path)]
    if any(each.run not in runs for each in found):
        raise UserError(f"{path} has runs that {grid.name} has not")
    return tuple(sorted(found, key=lambda each: runs.index(each.run)))


def trained_runs(grid: Path, project: Path) -> Iterator[tuple[GridRun, Path]]:
    """The runs of a grid with one data set whose training has ended, and their folders."""
    asked = read_grid(grid)
    (dataset,) = asked.datasets
    runner = Runner(Project(project), dataset, project / "benchmark")
    for run in grid_runs(asked):
        folder = runner.folder(run.spec, run.seed)
        if steps_done(folder) == runner.steps(run.spec, run.seed):
            yield run, folder
