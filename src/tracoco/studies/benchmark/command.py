"""What `tracoco benchmark` does: check the grid, let workers run it, show how far they are."""

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from socket import gethostname
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from tracoco.console import say
from tracoco.errors import UserError, raise_all
from tracoco.processes import end_with_parent, interrupted_by_signals
from tracoco.project.folder import Project
from tracoco.studies.benchmark.grid import Grid, GridRun, grid_runs, read_grid
from tracoco.studies.benchmark.results import Results
from tracoco.studies.benchmark.runner import Runner
from tracoco.studies.benchmark.state import Watch, grid_rows, progress_table
from tracoco.studies.benchmark.worker_processes import run_workers, work


@dataclass(frozen=True, slots=True)
class BenchmarkResult:
    """The table at the end, for a person and for a program."""

    table: Table
    rows: list[dict[str, Any]]
    problems: tuple[str, ...]
    """Why workers failed, to be printed after the table."""


@dataclass(frozen=True, slots=True)
class BenchmarkRequest:
    """A grid, where its data is, and where its results go."""

    grid: Path
    projects: tuple[str, ...]
    """`DATASET=FOLDER`."""
    results: Path
    jobs: int = 1
    device: str = "auto"

    def work(self) -> None:
        """Be one of the workers."""
        end_with_parent()
        grid = read_grid(self.grid)
        with interrupted_by_signals("stopped; the same command goes on from here"):
            work(grid_runs(grid), self._runners(grid), Results(self.results))

    def run(self, console: Console | None) -> BenchmarkResult:
        """Check everything, start the workers, and wait for them."""
        grid = read_grid(self.grid)
        runs, runners = grid_runs(grid), self._runners(grid)
        if self.results.is_file():
            raise UserError(
                f"{self.results} is a file; name a folder for the results with --results FOLDER"
            )
        _check(runs, runners)
        watch, problems = Watch(runs, runners, Results(self.results)), list[str]()

        def table() -> Table:
            return progress_table(watch.rows(), grid.title, self.jobs)

        if not all(row.done for row in watch.rows()):
            root = next(iter(runners.values())).root
            with ExitStack() as stack:
                on_update = _progress_display(table, console, stack)
                problems = run_workers(self._arguments(), self._logs(root), on_update)
        rows = watch.rows()
        return BenchmarkResult(progress_table(rows, grid.title), grid_rows(rows), tuple(problems))

    def _logs(self, root: Path) -> list[Path]:
        """One a worker, named so that other grids and other machines have others."""
        name = f"{self.grid.stem}-{gethostname()}-{os.getpid()}"
        return [root / "logs" / f"{name}-worker{number}.log" for number in range(self.jobs)]

    def _arguments(self) -> list[str]:
        projects = [word for project in self.projects for word in ("--project", project)]
        where = ["--results", str(self.results), "--device", self.device, "--worker"]
        return ["benchmark", str(self.grid), *projects, *where]

    def _folders(self) -> dict[str, Path]:
        pairs = [each.partition("=") for each in self.projects]
        raise_all([f"--project {p[0]} is not DATASET=FOLDER" for p in pairs if not p[2]])
        return {name: Path(folder) for name, _, folder in pairs}

    def _runners(self, grid: Grid) -> dict[str, Runner]:
        folders = self._folders()
        problems = [
            f"{self.grid} has the data set '{name}'; say where it is with --project {name}=FOLDER"
            for name in grid.datasets
            if name not in folders
        ]
        problems += [
            f"{folder} is no project; make one with `tracoco init`"
            for name, folder in folders.items()
            if name in grid.datasets and not Project(folder).exists
        ]
        raise_all(problems)
        return {
            name: Runner(Project(folders[name]), name, folders[name] / "benchmark", self.device)
            for name in grid.datasets
        }


def _check(runs: list[GridRun], runners: dict[str, Runner]) -> None:
    """Tell every mistake now: the last run may come days after the first."""
    problems = []
    for run in {(run.dataset, run.spec): run for run in runs}.values():
        try:
            runners[run.dataset].check(run.spec)
        except UserError as error:
            problems.append(f"row '{run.row}' on {run.dataset}: {error}")
    raise_all(list(dict.fromkeys(problems)))


def _progress_display(
    table: Callable[[], Table], console: Console | None, stack: ExitStack
) -> Callable[[], None]:
    """A table that renews itself on a terminal; elsewhere a line whenever a run is done."""
    if console is None:
        return lambda: None
    if console.is_terminal:
        live = stack.enter_context(Live(table(), console=console, auto_refresh=False))
        return lambda: live.update(table(), refresh=True)
    said = ""

    def tell() -> None:
        nonlocal said
        title = str(table().title)
        done = title.rpartition(" runs done")[0]
        if done != said:
            said = done
            say(title)

    return tell
