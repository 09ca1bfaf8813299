"""The demo, grids, the paper's tables and context sensitivity: what these commands call."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tracoco.api.predictions import CheckpointName
from tracoco.api.projects import ProjectPath, folder_of
from tracoco.api.runs import Run
from tracoco.console import progress_console
from tracoco.demo.run import DemoResult
from tracoco.demo.run import run_demo as run
from tracoco.errors import UserError
from tracoco.evaluation.context_sensitivity import (
    ContextChoice,
    ContextSensitivity,
    measure_context,
)
from tracoco.presets import settings_words
from tracoco.runs.folder import Weights
from tracoco.studies.benchmark.command import BenchmarkRequest, BenchmarkResult
from tracoco.studies.paper.contents import Shown, paper_content
from tracoco.studies.paper.request import PaperRequest, parse_projects


def run_demo(
    out: Path | str = Path("demo"), *, seed: int = 0, device: str = "auto", progress: bool = True
) -> DemoResult:
    """Run the whole pipeline on synthetic scans, from files to a report, as `tracoco demo` does.

    Args:
        out: output folder; it must not exist.
        seed: another one gives other scans and other first weights.
        device: `auto`, `cpu`, `cuda:N` or `mps`.
        progress: show progress on standard error, or in a notebook.
    """
    return run(Path(out), seed, device, progress_console() if progress else None)


def benchmark(
    grid: Path | str,
    projects: Mapping[str, Path | str] | Sequence[str],
    *,
    results: Path | str | None = None,
    jobs: int = 1,
    device: str = "auto",
    progress: bool = True,
) -> BenchmarkResult:
    """Train and test a grid of runs; call it again to go on after an interruption.

    A run that fails does not stop the others: `problems` of the result says why it failed.

    Args:
        grid: YAML file of the grid.
        projects: the folder of each data set's project, or texts `DATASET=FOLDER`.
        results: folder for one small file of each run; beside the grid if not given.
        jobs: number of runs at a time; they share the cores.
        device: `auto`, `cpu`, `cuda:N` or `mps`.
        progress: show progress on standard error.
    """
    kept = Path(results) if results else Path(grid).with_suffix("")
    request = BenchmarkRequest(Path(grid), tuple(_texts(projects)), kept, jobs, device)
    return request.run(progress_console() if progress else None)


def paper(  # noqa: PLR0913 - each is an option of the command, with the same default
    name: str,
    *,
    projects: Mapping[str, Path | str] | Sequence[str] = (),
    seeds: int = 1,
    preset: str | None = None,
    settings: Mapping[str, Any] | Sequence[str] = (),
    labelled: int | None = None,
    rows: Sequence[str] = (),
    best_on_test: bool = False,
    out: Path | str | None = None,
    device: str = "auto",
    progress: bool = True,
) -> Shown:
    """A table or figure of the paper: as published, or with what is run on your projects beside it.

    `tracoco.list_paper()` has the names.

    Args:
        name: the table or figure.
        projects: by data set, as `{"la": "heart"}`, or texts `[DATASET=]FOLDER`; without one,
            it is shown as published.
        seeds: number of seeds per row.
        preset: settings to use instead of the paper's.
        settings: changes, as `{"training.steps": 100}`, or texts `KEY=VALUE`.
        labelled: number of labelled cases, instead of the paper's.
        rows: only rows with these names.
        best_on_test: select the best checkpoint on the test set, as papers do.
        out: file of a figure; in the project's folder if not given.
        device: `auto`, `cpu`, `cuda:N` or `mps`.
        progress: show progress on standard error.
    """
    request = PaperRequest(
        parse_projects(_texts(projects)),
        preset,
        tuple(settings_words(settings)),
        labelled,
        seeds,
        best_on_test,
        device,
        progress_console() if progress else None,
    )
    return paper_content(name, request, rows=tuple(rows), out=Path(out) if out else None)


def _texts(projects: Mapping[str, Path | str] | Sequence[str]) -> Sequence[str]:
    """Projects as the command line has them: DATASET=FOLDER."""
    if isinstance(projects, Mapping):
        return [f"{data}={folder}" for data, folder in projects.items()]
    return projects


def context(  # noqa: PLR0913 - each is an option of the command, with the same default
    run: Run | Path | str,
    data: ProjectPath,
    *,
    shifts: int = 20,
    checkpoint: CheckpointName = "last",
    weights: Weights = "averaged",
    seed: int = 0,
    device: str = "auto",
    progress: bool = True,
) -> ContextSensitivity:
    """Measure how much predictions depend on what surrounds a voxel.

    Args:
        run: the run, or its folder.
        data: a scan, a folder of scans, or a project, which stands for its test set.
        shifts: pairs of crops of each scan.
        checkpoint: `last` or `best`.
        weights: `averaged` where the run has averaged weights, or `raw`.
        seed: changes where the crops lie.
        device: `auto`, `cpu`, `cuda:N` or `mps`.
        progress: show progress on standard error.
    """
    if shifts < 1:
        raise UserError(f"{shifts} shifts measure nothing; ask for 1 or more")
    return measure_context(
        Run.load(run).folder,
        folder_of(data),
        ContextChoice(shifts, seed),
        checkpoint=checkpoint,
        weights=weights,
        device=device,
        console=progress_console() if progress else None,
    )
