"""Create and prepare a project: what `tracoco init` and `prepare` call."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Literal

from tracoco.console import counted, progress_console
from tracoco.errors import UserError, raise_all
from tracoco.lock import only_writer
from tracoco.processes import Shard, interrupted_by_signals, shard_of
from tracoco.project.create import (
    Proposal,
    SplitChoice,
    create_project,
    new_project,
    propose,
)
from tracoco.project.folder import Project, remove_abandoned
from tracoco.project.folds import chosen_folding
from tracoco.project.label_table import AS_DRAWN, LabelChoice
from tracoco.project.layouts import LAYOUTS, Found, find_cases
from tracoco.project.machine import Device
from tracoco.project.prepare import prepare as fill_store
from tracoco.project.update import Update, apply_update, propose_update
from tracoco.studies.paper.case_lists import listed_splits
from tracoco.studies.paper.downloads import PaperData, find_paper_data, write_scans

if TYPE_CHECKING:
    from rich.console import Console

WRITTEN_SCANS = "scans"
"""Folder of a project with the scans that had to be changed for a data set of the paper."""
ProjectPath = Project | Path | str


@dataclass(frozen=True, slots=True)
class InitResult:
    """What `init` found, and the project that it wrote."""

    project: Project | None
    """None after a dry run."""
    proposal: Proposal
    update: Update | None = None
    """What is new in the data, for `update=True`."""


@dataclass(frozen=True, slots=True)
class _Request:
    """The arguments of one call of `init`."""

    data: Path
    out: Path | None
    choice: SplitChoice
    drawn: LabelChoice = AS_DRAWN
    labels: Path | None = None
    layout: str | None = None
    paper_split: str | None = None
    paper_data: str | None = None
    partial: bool = False
    crop_by_label: bool = False
    dimensions: Literal[2, 3] = 3
    memory_gb: float | None = None
    device: Device | None = None
    dry_run: bool = False
    workers: int | None = None
    console: "Console | None" = None

    @property
    def project(self) -> Path:
        """The folder to write, which only a dry run can do without."""
        if self.out is None:
            raise UserError("where to? Name the project's folder with --out, or try --dry-run")
        return self.out

    def check_new(self) -> None:
        """Refuse options that a new project cannot have together."""
        problems = []
        drawn = self.choice.validation or self.choice.test
        if drawn and (self.paper_split or self.paper_data):
            which = "--paper-split" if self.paper_split else "--paper-data"
            problems.append(f"{which} names all cases; leave out --validation and --test")
        if self.paper_data and (self.paper_split or self.labels or self.layout):
            problems.append(
                "--paper-data knows files and split; leave out --paper-split, --labels and --layout"
            )
        if not self.paper_data and (self.partial or self.crop_by_label):
            problems.append("--partial and --crop-by-label belong to --paper-data; add it")
        raise_all(problems)

    def check_update(self) -> None:
        """Refuse options that would change what a project has settled."""
        settled = {
            "--validation": self.choice.validation,
            "--test": self.choice.test,
            "--hide-labels": self.choice.hide_labels,
            "--group-pattern": self.choice.group_pattern,
            "--ignore-label": self.drawn.ignore,
            "--paper-split": self.paper_split,
            "--paper-data": self.paper_data,
            "--memory-gb": self.memory_gb,
            "--for": self.device,
        }
        given = [option for option, value in settled.items() if value]
        if given:
            raise UserError(
                f"--update keeps split and plan of the project; leave out {', '.join(given)}, or "
                "edit splits.json and plan.yaml"
            )


def init(  # noqa: PLR0913 - each is an option of the command, with the same default
    data: Path | str,
    out: Path | str | None = None,
    *,
    labels: Path | str | None = None,
    layout: str | None = None,
    validation: int = 0,
    test: int = 0,
    group_pattern: str | None = None,
    hide_labels: int | None = None,
    ignore_label: int | None = None,
    drawn_slices: Literal["sagittal", "coronal", "axial"] | None = None,
    label_table: Path | str | None = None,
    paper_split: str | None = None,
    paper_data: str | None = None,
    partial: bool = False,
    crop_by_label: bool = False,
    dimensions: Literal[2, 3] = 3,
    memory_gb: float | None = None,
    device: Device | None = None,
    update: bool = False,
    dry_run: bool = False,
    workers: int | None = None,
    folds: int | None = None,
    stratify: bool = False,
    seed: int = 0,
    progress: bool = True,
) -> InitResult:
    """Pair images and labels, split the cases and plan the training; write a project folder.

    Args:
        data: a folder of scans, or a CSV file that lists them.
        out: the project's folder, which must not exist; a dry run needs none.
        labels: folder of the labels, if it is not `labels` beside the images.
        layout: how `data` is laid out; recognised if not given.
        validation: labelled cases that choose the best checkpoint.
        test: labelled cases to hold out as a test set.
        group_pattern: regular expression that finds the patient in a case's name; all cases of a
            patient go to the same part of the split.
        hide_labels: use this many labels only, to simulate having few.
        ignore_label: value in the labels of voxels that nobody has drawn; they count as unlabelled.
        drawn_slices: `axial`, `coronal` or `sagittal`: such slices of a label without any
            structure were not drawn, and count as unlabelled.
        label_table: CSV or JSON file that says of single labels which structures and slices are
            drawn.
        paper_split: `la`, `pancreas`, `brats19` or `acdc`: the split of the paper.
        paper_data: the same names: a data set of the paper as it is downloaded.
        partial: the download is not complete.
        crop_by_label: crop the scans of such a data set around the structure, as the field does.
        dimensions: 2 for networks that see slices.
        memory_gb: what a training may take; the GPU's memory or a quarter of the RAM by default.
        device: plan for `cpu` or `gpu`; this machine by default.
        update: add new scans and labels to the project that is there.
        dry_run: find out the pairing and write nothing.
        workers: processes that read scans.
        folds: deal the labelled cases to so many folds for cross-validation, by patient; with
            `update`, only in a project that has none.
        stratify: give every fold small and large structures, by their volume in the labels.
        seed: decides which cases are drawn for validation and test, and how folds are dealt.
        progress: show progress on standard error.
    """
    request = _Request(
        data=Path(data),
        out=None if out is None else Path(out),
        labels=None if labels is None else Path(labels),
        layout=layout,
        choice=SplitChoice(
            validation,
            test,
            seed,
            hide_labels,
            group_pattern,
            folding=chosen_folding(folds, stratify=stratify, seed=seed),
        ),
        drawn=LabelChoice(
            ignore_label, drawn_slices, None if label_table is None else Path(label_table)
        ),
        paper_split=paper_split,
        paper_data=paper_data,
        partial=partial,
        crop_by_label=crop_by_label,
        dimensions=dimensions,
        memory_gb=memory_gb,
        device=device,
        dry_run=dry_run,
        workers=workers,
        console=progress_console() if progress else None,
    )
    return _update(request) if update else _create(request)


def prepare(
    project: ProjectPath,
    *,
    workers: int | None = None,
    shard: Shard | None = None,
    progress: bool = True,
) -> Project:
    """Normalise and resample the scans of a project; cases that are prepared already are kept.

    Args:
        project: the project, or its folder.
        workers: processes that read scans; as many as suit machine and data by default.
        shard: (k, n): only the k-th of n parts of the scans, for several machines.
        progress: show progress on standard error.
    """
    opened = opened_project(project)
    ids, console = opened.load_splits().ids, progress_console() if progress else None
    stop = interrupted_by_signals("stopped; cases that are prepared are kept by the same command")
    with stop, counted("preparing", len(shard_of(ids, shard or (1, 1))), console) as on_case:
        fill_store(opened, on_case, workers, shard)
    return opened


def opened_project(project: ProjectPath) -> Project:
    """A project, however it is given."""
    return project if isinstance(project, Project) else Project(Path(project))


def folder_of(given: ProjectPath) -> Path:
    """A path, or the folder of a project."""
    return given.root if isinstance(given, Project) else Path(given)


def _create(request: _Request) -> InitResult:
    request.check_new()
    if request.dry_run:
        return InitResult(None, _proposal(request, _found(request)))
    with new_project(request.project), _written(request) as found:
        proposal = _proposal(request, found)
        with counted("reading scans", len(proposal.cases), request.console) as on_case:
            project = create_project(
                request.project,
                proposal,
                request.dimensions,
                memory_gb=request.memory_gb,
                device=request.device,
                workers=request.workers,
                on_case=on_case,
            )
    return InitResult(project, _as_written(proposal, project))


def _update(request: _Request) -> InitResult:
    request.check_update()
    project = Project(request.project)
    before = project.load_origin().layout
    if before and before not in {row.name for row in LAYOUTS}:
        raise UserError(
            f"{project.root} was made with {before}, whose cases are fixed; "
            "make a project without --paper-data to add scans to"
        )
    found = find_cases(request.data, request.labels, request.layout or before or None)
    with nullcontext() if request.dry_run else only_writer(project.root, "init --update"):
        if not request.dry_run:
            remove_abandoned(project.root)
        update = propose_update(project, found, request.drawn, request.choice.folding)
        if update.changed and not request.dry_run:
            scans = len(update.proposal.cases)
            with counted("reading scans", scans, request.console) as on_case:
                apply_update(project, update, workers=request.workers, on_case=on_case)
            update = replace(update, proposal=_as_written(update.proposal, project))
    return InitResult(project, update.proposal, update)


def _as_written(proposal: Proposal, project: Project) -> Proposal:
    """The proposal with what is known since its scans were read."""
    return replace(proposal, splits=project.load_splits(), origin=project.load_origin())


def _found(request: _Request) -> Found:
    if request.paper_data:
        found = find_paper_data(request.paper_data, request.data, partial=request.partial)
        return _as_found(request.paper_data, found)
    return find_cases(request.data, request.labels, request.layout)


def _proposal(request: _Request, found: Found) -> Proposal:
    lists = partial(listed_splits, request.paper_split) if request.paper_split else None
    return propose(found, replace(request.choice, lists=lists), request.drawn)


@contextmanager
def _written(request: _Request) -> Iterator[Found]:
    """The cases, with those scans written that have to change; a failure takes them back."""
    if not request.paper_data:
        yield _found(request)
        return
    found = find_paper_data(request.paper_data, request.data, partial=request.partial)
    folder = request.project / WRITTEN_SCANS
    try:
        with counted("writing scans", len(found.cases), request.console) as on_case:
            crop = request.crop_by_label
            found = write_scans(found, folder, crop_by_label=crop, on_case=on_case)
        yield _as_found(request.paper_data, found)
    except BaseException:
        rmtree(folder, ignore_errors=True)
        raise


def _as_found(name: str, data: PaperData) -> Found:
    return Found(
        data.cases,
        data.class_names,
        data.splits,
        notes=data.notes,
        layout=f"paper data {name}",
        plan=data.plan,
        watermark=data.watermark,
    )
