"""What is done with a trained run before others use it: what `tracoco tune` and `export` call."""

from pathlib import Path

from tracoco.api.predictions import CheckpointName
from tracoco.api.projects import ProjectPath, opened_project
from tracoco.api.runs import Run
from tracoco.console import progress_console
from tracoco.errors import check_choice
from tracoco.evaluation.tune import TuneResult, tune_run
from tracoco.inference.export import SUFFIXES, Exported, Format, export_run
from tracoco.project.folder import Project
from tracoco.runs.folder import Weights


def export(
    run: Run | Path | str,
    *,
    format: Format = "onnx",  # noqa: A002 - the option's name
    out: Path | str | None = None,
    scan: Path | str | None = None,
    checkpoint: CheckpointName = "last",
    weights: Weights = "averaged",
) -> Exported:
    """Write the network of a run with all that is needed to use it; checked before it is kept.

    Args:
        run: the run, or its folder.
        format: `onnx`, `pt2` (torch.export), `torchscript`, or `monai-bundle`, which is a folder.
        out: the file or folder; RUN/export/NAME with the format's ending by default.
        scan: scan that the check predicts; one of the run's project by default.
        checkpoint: `last` or `best`.
        weights: `averaged` where the run has averaged weights, or `raw`.
    """
    check_choice("format", format, tuple(SUFFIXES))
    folder = Run.load(run).folder
    default = folder / "export" / f"{folder.absolute().name}{SUFFIXES[format] or '-bundle'}"
    return export_run(
        folder,
        format,
        Path(out) if out is not None else default,
        Path(scan) if scan is not None else None,
        checkpoint=checkpoint,
        weights=weights,
    )


def tune(
    run: Run | Path | str,
    *,
    project: ProjectPath | None = None,
    checkpoint: CheckpointName = "last",
    weights: Weights = "averaged",
    device: str = "auto",
    progress: bool = True,
) -> TuneResult:
    """Try options of a prediction on the validation cases, and record what gains more than noise.

    Args:
        run: the run, or its folder, where the choice is recorded.
        project: the project with the scans; the one that the run lies in by default.
        checkpoint: `last` or `best`.
        weights: `averaged` where the run has averaged weights, or `raw`.
        device: `auto`, `cpu`, `cuda:N` or `mps`.
        progress: show progress on standard error.
    """
    folder = Run.load(run).folder
    default = Project(folder.absolute().parent.parent)
    return tune_run(
        folder,
        default if project is None else opened_project(project),
        checkpoint=checkpoint,
        weights=weights,
        device=device,
        console=progress_console() if progress else None,
    )
