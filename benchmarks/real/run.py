"""Make the projects and run all grids, several runs at a time with one thread each.

    python -m benchmarks.real.run DATA OUT             # everything
    python -m benchmarks.real.run DATA OUT la acdc     # these grids, in this order

First it says how long that will take. If interrupted, run the same command again: finished runs are
kept and stopped ones are resumed. Each worker goes through all grids and takes the next run that no
other one has, so none waits for the end of a grid. Results go to `OUT/results`, and at the end into
the committed files; `python -m benchmarks.real.collect OUT` does that at any time before.

A run with a committed result is not trained again unless `--anew` is given. What runs owe to the
surroundings of a voxel is measured on trained ones, so it needs `--anew` where OUT has no weights.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.real import more_seeds
from benchmarks.real.collect import ROOT, collect, committed_results, unpack, working_results
from benchmarks.real.measure_context import measure
from benchmarks.real.plan_of_runs import (
    grid_order,
    known_results,
    plan_grids,
    plan_table,
    runner_of,
    runs_of,
)
from benchmarks.real.projects import make_real_project
from benchmarks.real.texts import METHODS
from tracoco.console import print_table, say
from tracoco.errors import Stopped, UserError, collected, did_you_mean, raise_all
from tracoco.processes import WATCH_STDIN, end_with_parent, stop_on_signals
from tracoco.studies.benchmark.grid import RunSpec, grid_runs, read_grid
from tracoco.studies.benchmark.worker_processes import work

LOOK_SECONDS = 5.0
CONTEXT = ("la", "hippocampus")
"""Grids whose runs are asked what they owe to the surroundings of a voxel."""


def chosen_grids(names: Sequence[str]) -> list[Path]:
    """The grids of these names, or all of them in their order."""
    every = {path.stem: path for path in grid_order()}
    for name in names:
        if name not in every:
            raise UserError(f"there is no grid '{name}'; {did_you_mean(name, every)}")
    return [every[name] for name in names] or list(every.values())


def make_projects(data: Path, out: Path, grids: Sequence[Path]) -> None:
    """Make and prepare the projects that the grids need."""
    for name in dict.fromkeys(name for grid in grids for name in read_grid(grid).datasets):
        make_real_project(name, data.absolute(), out / name)


def check_runs(out: Path, grids: Sequence[Path]) -> None:
    """Build what every run is made of, so that a mistake is told before hours of training."""
    problems, checked = list[str](), set[tuple[str, RunSpec]]()
    for grid in grids:
        for run in grid_runs(read_grid(grid)):
            if (run.dataset, run.spec) not in checked:
                checked.add((run.dataset, run.spec))
                with collected(problems):
                    runner_of(out, run.dataset).check(run.spec)
    raise_all(list(dict.fromkeys(problems)))


def use_known(out: Path, grids: Sequence[Path], *, anew: bool = False) -> None:
    """Give each grid the results that are known, from the repository or from another grid."""
    known = known_results(ROOT, out, anew=anew)
    for grid in grids:
        unpack(grid.stem, runs_of(grid, out), known, out)


def be_worker(out: Path, grids: Sequence[Path]) -> None:
    """Go through all grids once; a run that fails does not keep the others from being done."""
    end_with_parent()
    problems = []
    for grid in grids:
        runs = grid_runs(read_grid(grid))
        runners = {name: runner_of(out, name) for name in {run.dataset for run in runs}}
        try:
            work(runs, runners, working_results(out, grid.stem))
        except Stopped:
            raise
        except UserError as error:
            problems.append(f"{grid.stem}: {error}")
    if problems:
        raise UserError("\n".join(problems))


def run_workers(out: Path, grids: Sequence[Path], jobs: int) -> list[str]:
    """Start the workers and wait for all of them; none outlives this call.

    Returns:
        The logs of those that failed.
    """
    words = ["--worker", "-", str(out), *(grid.stem for grid in grids)]
    command = [sys.executable, "-m", "benchmarks.real.run", *words]
    shared = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
    environment = os.environ | shared | {WATCH_STDIN: "1"}
    logs = [out / "logs" / f"worker{number}-{os.getpid()}.log" for number in range(jobs)]
    workers: list[subprocess.Popen[bytes]] = []
    with stop_on_signals() as stop:
        try:
            for log in logs:
                log.parent.mkdir(parents=True, exist_ok=True)
                with log.open("wb") as file:
                    started = subprocess.Popen(  # noqa: S603 - our own command
                        command, env=environment, stdin=subprocess.PIPE, stdout=file, stderr=file
                    )
                workers.append(started)
            while not stop.signal and any(worker.poll() is None for worker in workers):
                time.sleep(LOOK_SECONDS)
        finally:
            for worker in workers:
                if worker.poll() is None:
                    worker.terminate()  # it saves its run before it ends
            for worker in workers:
                worker.wait()
    if stop.signal:
        raise Stopped("stopped; the same command resumes from here", stop.signal)
    return [str(log) for log, worker in zip(logs, workers, strict=True) if worker.returncode]


def run_grids(out: Path, grids: Sequence[Path], jobs: int, *, anew: bool = False) -> list[str]:
    """Run grids and collect their results, also what there is after a stop."""
    use_known(out, grids, anew=anew)
    try:
        failed = run_workers(out, grids, jobs)
        use_known(out, grids, anew=anew)  # a run that another worker had for another grid
        return failed
    finally:
        for grid in grids:
            if changed := collect(grid, out):
                say(f"{grid.stem}: {changed} new or changed results")


def add_seeds(out: Path, grids: Sequence[Path], jobs: int, *, anew: bool = False) -> list[str]:
    """Choose the best methods once every method has its first seed, and run their other seeds."""
    chosen = [grid for grid in grids if grid.stem.endswith(METHODS)]
    for grid in chosen:
        say(
            f"{grid.stem}: more seeds for {', '.join(more_seeds.choose(ROOT, grid.stem)) or 'none'}"
        )
    return run_grids(out, chosen, jobs, anew=anew) if chosen else []


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description="Run the grids of the real data.")
    parser.add_argument("data", type=Path, help="folder of the real data")
    parser.add_argument("out", type=Path, help="folder for the projects and their results")
    parser.add_argument("grids", nargs="*", help="names of grids; all by default")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time, one thread each")
    parser.add_argument("--plan", action="store_true", help="only say how long it will take")
    parser.add_argument(
        "--anew", action="store_true", help="train also what has a committed result"
    )
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    request = parser.parse_args()
    try:
        grids = chosen_grids(request.grids)
        if request.worker:
            be_worker(request.out, grids)
            return
        make_projects(request.data, request.out, grids)
        anew: bool = request.anew
        known = known_results(ROOT, request.out, anew=anew)
        earlier = dict(committed_results(ROOT)).values()
        print_table(plan_table(plan_grids(grids, request.out, known, earlier), request.jobs))
        if request.plan:
            return
        check_runs(request.out, grids)
        failed = run_grids(request.out, grids, request.jobs, anew=anew)
        failed += [] if failed else add_seeds(request.out, grids, request.jobs, anew=anew)
        for grid in grids:
            if grid.stem in CONTEXT:
                measure(ROOT, grid.stem, request.out / grid.stem)
        if failed:
            raise UserError(f"some runs failed; see {' and '.join(failed)}")
    except UserError as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
