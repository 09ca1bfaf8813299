"""The demo, grids, the paper's tables, context sensitivity and cross-validation, as functions."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tracoco.api.predictions import CheckpointName, run_path
from tracoco.api.projects import ProjectPath, folder_of, opened_project
from tracoco.api.runs import Run
from tracoco.console import progress_console
from tracoco.demo.run import DemoResult
from tracoco.demo.run import run_demo as run_whole_demo
from tracoco.errors import UserError
from tracoco.evaluation.context_sensitivity import (
    ContextChoice,
    ContextSensitivity,
    measure_context,
)
from tracoco.evaluation.evaluate import evaluate_predictions
from tracoco.evaluation.scores import chosen_protocol
from tracoco.files import content_hash
from tracoco.inference.manifest import merged_manifest
from tracoco.inference.predict import predict_scans
from tracoco.presets import settings_words
from tracoco.project.folder import Project
from tracoco.reporting.cross_validation import CrossValidation, pooled
from tracoco.reporting.project_record import run_folders
from tracoco.runs.folder import RunFolder, Weights
from tracoco.studies.benchmark.command import BenchmarkRequest, BenchmarkResult
from tracoco.studies.paper.contents import Shown, paper_content
from tracoco.studies.paper.request import PaperRequest, parse_projects

if TYPE_CHECKING:
    from rich.console import Console


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
    return run_whole_demo(Path(out), seed, device, progress_console() if progress else None)


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


def cross_validate(
    project: ProjectPath,
    runs: Sequence[Run | Path | str] = (),
    *,
    checkpoint: CheckpointName = "last",
    protocol: Literal["paper"] | None = None,
    device: str = "auto",
    progress: bool = True,
) -> CrossValidation:
    """Predict the fold that each run held out, and score all cases together.

    Predictions are kept in RUN/predictions/fold (`fold-best` for the best checkpoint); cases that
    the same weights have predicted there are not predicted again. What `tune` recorded is left
    out, since it was chosen on these cases.

    Args:
        project: the project, or its folder.
        runs: one run for each fold, or their folders; all runs of folds in the project by default.
        checkpoint: `last`, or `best`, which the cases of the fold may have chosen.
        protocol: `paper` for distances in voxels, and zero for missed structures.
        device: `auto`, `cpu`, `cuda:N` or `mps`.
        progress: show progress on standard error.
    """
    opened, console = opened_project(project), progress_console() if progress else None
    conventions = chosen_protocol(protocol)
    folders = []
    for run in _one_for_each_fold(opened, [run_path(run) for run in runs]):
        folders.append(_predicted(opened, run, checkpoint, device, console))
        evaluate_predictions(folders[-1], opened.root, conventions)
    return pooled(opened, folders)


def _one_for_each_fold(project: Project, given: Sequence[Path]) -> list[Path]:
    """The runs by their folds; two of one fold are refused."""
    splits = project.load_splits()
    runs = list(given) or [run for _, run in run_folders(project)]
    found: dict[int, Path] = {}
    for run in runs:
        fold = RunFolder(run).config().data.fold
        if fold is None:
            if given:
                raise UserError(f"{run} held out no fold; give runs of `tracoco train --fold`")
            continue
        if fold > len(splits.folds):
            raise UserError(
                f"{run} held out fold {fold}, but {project.splits_file} has {len(splits.folds)} "
                "folds; give runs of this project"
            )
        if fold in found:
            raise UserError(
                f"{found[fold]} and {run} both held out fold {fold}; name the runs of one "
                f"cross-validation, as in tracoco cross-validate {project.root} RUN RUN"
            )
        found[fold] = run
    if not found:
        raise UserError(
            f"{project.root} has no run of a fold; train one for each with "
            f"`tracoco train {project.root} --fold 1`, and so on"
        )
    return [found[fold] for fold in sorted(found)]


def _predicted(
    project: Project, run: Path, checkpoint: CheckpointName, device: str, console: "Console | None"
) -> Path:
    """The folder with the predictions of the fold that a run held out; made where they are not."""
    out = run / "predictions" / ("fold" if checkpoint == "last" else f"fold-{checkpoint}")
    known, weights = merged_manifest(out).weights, RunFolder(run).checkpoint(checkpoint)
    # A run may have been trained on since: then they are made again.
    redo = bool(known) and weights.is_file() and known != content_hash(weights)
    predict_scans(
        run,
        project.root,
        out,
        checkpoint=checkpoint,
        plain=True,
        part="fold",
        redo=redo,
        device=device,
        console=console,
    )
    return out
