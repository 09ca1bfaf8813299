"""What `tracoco benchmark` does: check the grid, let workers run it, show how far they are."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from tracoco.benchmark.crew import run_crew
from tracoco.benchmark.grid import Grid, GridRun, grid_runs, read_grid
from tracoco.benchmark.kept import Results
from tracoco.benchmark.progress_table import grid_rows, progress_table
from tracoco.benchmark.runner import Runner
from tracoco.benchmark.state import row_states
from tracoco.benchmark.working import work
from tracoco.console import say
from tracoco.errors import UserError, raise_all
from tracoco.project.folder import Project


@dataclass(frozen=True, slots=True)
class Shown:
    """The table at the end, for a person and for a program."""

    table: Table
    rows: list[dict[str, Any]]


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
        grid = read_grid(self.grid)
        elsewhere = work(grid_runs(grid), self._runners(grid), Results(self.results))
        if elsewhere:
            say(f"{elsewhere} runs are in the hands of other workers")

    def run(self, console: Console | None) -> Shown:
        """Check everything, start the workers, and wait for them."""
        grid = read_grid(self.grid)
        runs, runners, results = grid_runs(grid), self._runners(grid), Results(self.results)
        _check(runs, runners)
        folders = {run: runners[run.dataset].folder(run.spec, run.seed) for run in runs}

        def table() -> Table:
            return progress_table(row_states(runs, folders, results), grid.title, self.jobs)

        if any(not results.find(run, folder) for run, folder in folders.items()):
            with ExitStack() as stack:
                run_crew(self._arguments(), self.jobs, self._logs, _look(table, console, stack))
        rows = row_states(runs, folders, results)
        return Shown(progress_table(rows, grid.title), grid_rows(rows))

    @property
    def _logs(self) -> Path:
        return next(iter(self._folders().values())) / "benchmark"

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


def _look(
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
        done = str(table().title).split(" runs done")[0]
        if done != said:
            said = done
            say(str(table().title))

    return tell
