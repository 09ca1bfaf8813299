"""How long the runs of all grids will take, before they are started.

    python -m benchmarks.real.plan_of_runs OUT

The time of a run is its steps by the measured seconds of a step: of earlier results on this machine
with the same data set and method; else of supervised learning there, by what a step of the method
costs beside one of it (docs/reference/methods.md); else of a step that is timed now. A run that two
grids ask for counts once, in the first of them.
"""

import argparse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from rich.table import Table

from benchmarks.real.collect import ROOT, committed_results, working_results
from benchmarks.real.more_seeds import BEST
from benchmarks.real.texts import COMPONENTS, DATA, LABELS, MAIN, METHODS, PARTIAL
from tracoco.console import print_table
from tracoco.errors import UserError
from tracoco.methods.catalogue import read_costs
from tracoco.project.folder import Project
from tracoco.runs.build import choose_device, machine_name
from tracoco.studies.benchmark.grid import GridRun, grid_runs, read_grid
from tracoco.studies.benchmark.results import Results, RunResult
from tracoco.studies.benchmark.runner import Runner
from tracoco.studies.benchmark.state import RunState, Watch
from tracoco.training.step_cost import step_seconds

BESIDE = 20.0
"""Seconds of a run beside its steps: start, checkpoints, predictions and scores."""
REFERENCE = "supervised"
Paces = dict[tuple[str, str], float]
"""Seconds per step by data set and method."""


@dataclass(frozen=True, slots=True)
class GridPlan:
    """What is left of one grid."""

    name: str
    runs: int
    done: int
    shared: int
    """Runs that an earlier grid has already."""
    minutes: float
    """Of one core, for the runs that are left."""
    sources: tuple[str, ...]
    """Where the paces of these runs come from."""


def grid_order(root: Path = ROOT) -> list[Path]:
    """The grids in the order in which they are run: the main table first."""
    names = [
        f"{data}{kind}" for kind in (MAIN, COMPONENTS, LABELS, PARTIAL, METHODS) for data in DATA
    ]
    return [path for name in names if (path := root / f"{name}.yaml").exists()]


def runner_of(out: Path, dataset: str) -> Runner:
    """The runs of a data set, whichever grid they are of."""
    project = Project(out / dataset)
    if not project.exists:
        raise UserError(f"{project.root} is no project; run `make real` with OUT={out}")
    return Runner(project, dataset, project.root / "benchmark")


def runs_of(grid: Path, out: Path) -> list[tuple[GridRun, Path]]:
    """The runs of a grid, each with its folder."""
    runs = grid_runs(read_grid(grid))
    runners = {name: runner_of(out, name) for name in {run.dataset for run in runs}}
    return [(run, runners[run.dataset].folder(run.spec, run.seed)) for run in runs]


def known_results(root: Path, out: Path, *, anew: bool = False) -> dict[str, RunResult]:
    """All results by the names of their runs' folders; anew: without the committed ones."""
    found = {} if anew else dict(committed_results(root))
    for grid in grid_order(root):
        working = working_results(out, grid.stem)
        kept = [working.read(run) for run in grid_runs(read_grid(grid))]
        found |= dict(each for each in kept if each)
    return found


def paces(results: Iterable[RunResult], machine: str) -> dict[tuple[str, str], float]:
    """Seconds per step of what was run on a machine, the median of each data set and method."""
    found: dict[tuple[str, str], list[float]] = {}
    for result in (each for each in results if each.machine == machine):
        key = (result.dataset, result.method)
        found.setdefault(key, []).append(result.seconds / result.steps)
    return {key: median(values) for key, values in found.items()}


def pace(dataset: str, method: str, known: Paces) -> tuple[float, str] | None:
    """Seconds per step of a method, and where they come from; None if nothing tells."""
    if (dataset, method) in known:
        return known[dataset, method], "measured"
    costs = read_costs()
    if (dataset, REFERENCE) in known and costs and method in costs.methods:
        return known[dataset, REFERENCE] * costs.methods[method].time, "by the method's cost"
    return None


def plan_grids(
    grids: Sequence[Path],
    out: Path,
    known: Mapping[str, RunResult],
    measured: Iterable[RunResult] = (),
) -> list[GridPlan]:
    """What is left of each grid, one after the other.

    Args:
        grids: their files.
        out: the folder of the projects.
        known: results by the names of their runs' folders, which are not run again.
        measured: other results, which tell how long steps take.
    """
    taken, found, timed = set[str](), list[GridPlan](), Paces()
    speeds = paces([*measured, *known.values()], machine_name(choose_device("auto")))
    for grid in grids:
        runs = runs_of(grid, out)
        folders = {run.name: folder.name for run, folder in runs}
        states = _states(runs, out)
        done = sum(folders[each.run.name] in known for each in states)
        left = [s for s in states if folders[s.run.name] not in known]
        new = [state for state in left if folders[state.run.name] not in taken]
        times = [_seconds(state, out, speeds, timed) for state in new]
        minutes = sum(seconds for seconds, _ in times) / 60
        sources = tuple(sorted({source for _, source in times}))
        counts = (len(runs), done, len(left) - len(new))
        found.append(GridPlan(grid.stem, *counts, minutes, sources))
        taken |= {folders[state.run.name] for state in new}
        if grid.stem.endswith(METHODS) and new and not _chosen(grid):
            more = 2 * BEST
            mean = minutes / len(new)
            name = f"{grid.stem}: seeds 1 and 2 of the {BEST} best"
            found.append(GridPlan(name, more, 0, 0, more * mean, ("mean of the grid",)))
    return found


def _chosen(grid: Path) -> bool:
    """Whether the file says already which rows have more seeds."""
    return any(row.seeds for row in read_grid(grid).rows.values())


def _states(runs: Sequence[tuple[GridRun, Path]], out: Path) -> list[RunState]:
    runners = {run.dataset: runner_of(out, run.dataset) for run, _ in runs}
    watch = Watch([run for run, _ in runs], runners, Results(out / "results" / "none"))
    return [state for row in watch.rows() for state in row.runs]


def _seconds(state: RunState, out: Path, measured: Paces, timed: Paces) -> tuple[float, str]:
    """What is left of a run, and where that comes from; what is timed now is kept for the next."""
    if state.minutes:
        return 60 * state.minutes + BESIDE, "given as a time"
    run, runner = state.run, runner_of(out, state.run.dataset)
    config = runner.config(run.spec, run.seed)
    key = run.dataset, config.method.name
    found = (timed[key], "timed now") if key in timed else pace(*key, measured)
    if found is None:
        seconds = step_seconds(config, runner.project.load_plan())
        timed[key] = seconds
        found = seconds, "timed now"
    return state.seconds_left(found[0]) + BESIDE, found[1]


def plan_table(plans: Sequence[GridPlan], jobs: int) -> Table:
    """One line per grid, and their sum."""
    total = sum(plan.minutes for plan in plans)
    hours = total / 60 / jobs
    table = Table(title=f"About {hours:.1f} hours with {jobs} runs at a time")
    for name in ("grid", "runs", "done", "of an earlier grid", "to run", "core-minutes", "by"):
        table.add_column(name, justify="left" if name in {"grid", "by"} else "right")
    for plan in plans:
        counts = (plan.runs, plan.done, plan.shared, plan.runs - plan.done - plan.shared)
        table.add_row(plan.name, *map(str, counts), f"{plan.minutes:.0f}", ", ".join(plan.sources))
    table.add_row("together", "", "", "", "", f"{total:.0f}", "")
    return table


def main() -> None:
    """Print the plan."""
    parser = argparse.ArgumentParser(description="How long the runs of all grids will take.")
    parser.add_argument("out", type=Path, help="folder of the projects")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time")
    parser.add_argument("--anew", action="store_true", help="committed results do not count")
    request = parser.parse_args()
    try:
        known = known_results(ROOT, request.out, anew=request.anew)
        earlier = dict(committed_results(ROOT)).values()
        plans = plan_grids(grid_order(), request.out, known, earlier)
        print_table(plan_table(plans, request.jobs))
    except UserError as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
