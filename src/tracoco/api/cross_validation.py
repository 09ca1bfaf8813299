"""Score every labelled case with the run that held it out: what `tracoco cross-validate` calls."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tracoco.api.predictions import CheckpointName, run_path
from tracoco.api.projects import ProjectPath, opened_project
from tracoco.console import progress_console
from tracoco.errors import UserError
from tracoco.evaluation.evaluate import evaluate_predictions
from tracoco.evaluation.scores import chosen_protocol
from tracoco.files import content_hash
from tracoco.inference.manifest import merged_manifest
from tracoco.inference.predict import predict_scans
from tracoco.project.folder import Project
from tracoco.reporting.cross_validation import CrossValidation, pooled
from tracoco.reporting.project_record import run_folders
from tracoco.runs.folder import RunFolder

if TYPE_CHECKING:
    from rich.console import Console

    from tracoco.api.runs import Run


def cross_validate(
    project: ProjectPath,
    runs: "Sequence[Run | Path | str]" = (),
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
