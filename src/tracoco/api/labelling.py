"""The labelling loop: what `tracoco next`, `update` and `serve` call."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracoco.api.projects import ProjectPath, opened_project, prepare
from tracoco.api.runs import Run, check_length
from tracoco.console import counted, progress_console
from tracoco.errors import UserError
from tracoco.labelling.labels import NewLabels, take_labels
from tracoco.labelling.next_scans import NextScans
from tracoco.labelling.next_scans import next_scans as choose_scans
from tracoco.labelling.rounds import Round, has_begun, open_round, train_round, with_new_labels
from tracoco.presets import settings_words
from tracoco.project.folder import Project

DRAFTS = "drafts"
"""Folder of a project with labels to correct."""


def next_scans(
    project: ProjectPath,
    run: Run | Path | str,
    *,
    count: int = 5,
    out: Path | str | None = None,
    device: str = "auto",
    progress: bool = True,
) -> NextScans:
    """Choose the unlabelled scans to label next, and write a draft label of each.

    Scans are ranked by the disagreement of the two networks and by entropy; of the most uncertain
    ones, those are chosen that are least like labelled scans and like each other. Scores are
    computed once for each scan and run, and kept in RUN/predictions/unlabelled/predictions.json.

    Args:
        project: the project, or its folder.
        run: a run of this project, or its folder.
        count: number of scans.
        out: folder of the drafts; PROJECT/drafts by default. Files that you have changed stay.
        device: `auto`, `cpu`, `cuda:N` or `mps`.
        progress: show progress on standard error.
    """
    opened = opened_project(project)
    return choose_scans(
        opened,
        Run.load(run).folder,
        count,
        Path(out) if out else opened.root / DRAFTS,
        device=device,
        console=progress_console() if progress else None,
    )


@dataclass(frozen=True, slots=True)
class UpdateResult:
    """What new labels have changed."""

    project: Project
    labels: NewLabels
    round: Round | None
    """The round of labelling; None if there was nothing new."""
    run: Run | None = None
    """The run of the round, with `train`."""


def update(  # noqa: PLR0913 - each is an option of the command, with the same default
    project: ProjectPath,
    *,
    labels: Path | str | None = None,
    train: bool = False,
    accept_drafts: bool = False,
    settings: Mapping[str, Any] | Sequence[str] = (),
    minutes: float | None = None,
    init_from: Path | str | None = None,
    workers: int | None = None,
    device: str = "auto",
    progress: bool = True,
) -> UpdateResult:
    """Take corrected labels into the project, prepare what changed, and train from the last model.

    With `train`, a new run starts from the newest one, and both are scored on the validation cases,
    or on the test cases if there are none. A training that was stopped is resumed by the same call
    without new labels.

    Args:
        project: the project, or its folder.
        labels: folder of the labels, each by the name of its scan; without it, the last round goes
            on.
        train: train a run, too.
        accept_drafts: also take drafts of `next` that nobody has changed.
        settings: changes of single settings of the newest run, e.g. `{"training.steps": 4000}`.
        minutes: length by time on this machine, in place of steps.
        init_from: start from this run in place of the newest one.
        workers: processes that read scans; as many as suit machine and data by default.
        device: `auto`, `cpu`, `cuda:N` or `mps`.
        progress: show progress on standard error.
    """
    opened, console = opened_project(project), progress_console() if progress else None
    scans = len(opened.load_splits().ids)  # an error where there is no project
    changes = [f"training.minutes={minutes}"] if minutes is not None else []
    changes += settings_words(settings)
    check_length(changes, minutes)
    start = None if init_from is None else Run.load(Path(init_from)).folder
    new = NewLabels()
    if labels is not None:
        with counted("reading scans", scans, console) as on_case:
            new = take_labels(
                opened, Path(labels), accept_drafts=accept_drafts, workers=workers, on_case=on_case
            )
    current = with_new_labels(opened, new) if new.taken else open_round(opened)
    if current is None or not (new.taken or train):
        _refuse_nothing(opened, labels, new, train=train)
        return UpdateResult(opened, new, None)
    if new.taken or not has_begun(opened, current):
        prepare(opened, workers=workers, progress=progress)
    if not train:
        return UpdateResult(opened, new, current)
    current, result = train_round(
        opened, current, changes, init_from=start, device=device, console=console
    )
    run = Run(opened.runs_root / current.run, result.steps, result.signal, result.leads)
    return UpdateResult(opened, new, current, run)


def _refuse_nothing(
    project: Project, labels: Path | str | None, new: NewLabels, *, train: bool
) -> None:
    """Tell why there is nothing to do; a folder whose labels are known already is no error."""
    if labels is None:
        raise UserError(
            f"{project.root} has no round of labelling to go on with; name the new labels with "
            "--labels FOLDER" + ("" if train else ", and add --train to train from them")
        )
    if train and new.drafts and not new.unchanged:
        raise UserError(
            f"{labels} holds only drafts that nobody has changed; correct them, or add "
            "--accept-drafts to take them as they are"
        )
    if train:
        raise UserError(f"{labels} holds no label that {project.root} does not have already")


def serve(
    project: ProjectPath,
    *,
    run: Run | Path | str | None = None,
    host: str = "127.0.0.1",
    port: int = 8000,
    allow_origin: Sequence[str] = (),
    device: str = "auto",
) -> None:
    """Serve a project to 3D Slicer and OHIF, until Ctrl-C: MONAI Label's REST interface.

    Args:
        project: the project, or its folder.
        run: the model; the newest run by default.
        host: address to listen on. Any other than 127.0.0.1 needs the token that is printed.
        port: port to listen on.
        allow_origin: web pages of other addresses that may use the server.
        device: `auto`, `cpu`, `cuda:N` or `mps`.
    """
    try:
        from tracoco.serving.app import listen  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise UserError(
            f"`serve` needs {error.name}, which is not installed: pip install 'tracoco[serve]'"
        ) from error
    opened = opened_project(project)
    opened.load_splits()  # an error where there is no project
    folder = None if run is None else Run.load(run).folder
    listen(opened, folder, host, port, allow_origin=allow_origin, device=device)
