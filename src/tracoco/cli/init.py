"""`tracoco init`: create a project from a folder of scans, or add scans to one."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.markup import escape
from rich.table import Table

from tracoco.cli.app import AsJson, Memory, PlannedFor, Seed, app
from tracoco.console import print_json, print_table

if TYPE_CHECKING:
    from tracoco.api.projects import InitResult
    from tracoco.project.cases import Case
    from tracoco.project.create import Proposal
    from tracoco.project.update import Update


DrawnSlices = Literal["sagittal", "coronal", "axial"]


@app.command()
def init(
    data: Annotated[Path, typer.Argument(help="Folder of scans, or a CSV that lists them.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Project folder to create.")
    ] = None,
    labels: Annotated[Path | None, typer.Option(help="Labels, if not in DATA/labels.")] = None,
    layout: Annotated[
        str | None, typer.Option(help="Layout of DATA, if it is not recognised.")
    ] = None,
    validation: Annotated[
        int, typer.Option(min=0, help="Labelled cases that choose the best checkpoint.")
    ] = 0,
    test: Annotated[int, typer.Option(min=0, help="Labelled cases to hold out as a test set.")] = 0,
    group_pattern: Annotated[
        str | None, typer.Option(help="Regular expression for the patient, e.g. '(patient\\d+)'.")
    ] = None,
    hide_labels: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Use only N labels, as a simulation.")
    ] = None,
    ignore_label: Annotated[
        int | None, typer.Option(metavar="N", help="Value of voxels that nobody has drawn.")
    ] = None,
    drawn_slices: Annotated[
        DrawnSlices | None,
        typer.Option(help="Such slices without any structure were not drawn."),
    ] = None,
    label_table: Annotated[
        Path | None,
        typer.Option(help="CSV or JSON: which structures and slices of each label are drawn."),
    ] = None,
    paper_split: Annotated[
        str | None, typer.Option(help="Split of the paper: la, pancreas, brats19 or acdc.")
    ] = None,
    paper_data: Annotated[
        str | None,
        typer.Option(help="Data set of the paper as downloaded: la, pancreas, brats19, acdc."),
    ] = None,
    partial: Annotated[
        bool, typer.Option("--partial", help="With --paper-data: the download is incomplete.")
    ] = False,
    crop_by_label: Annotated[
        bool, typer.Option("--crop-by-label", help="With --paper-data: crop around the structure.")
    ] = False,
    dimensions: Annotated[
        int, typer.Option(min=2, max=3, help="3: networks see volumes; 2: they see slices.")
    ] = 3,
    memory_gb: Memory = None,
    device: PlannedFor = None,
    update: Annotated[
        bool, typer.Option("--update", help="Add new scans and labels to the project.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the pairing and write nothing.")
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Number of processes. Default: chosen by machine and data."),
    ] = None,
    folds: Annotated[
        int | None,
        typer.Option(metavar="N", help="Deal labelled cases to N folds for cross-validation."),
    ] = None,
    stratify: Annotated[
        bool, typer.Option("--stratify", help="With --folds: small and large structures in each.")
    ] = False,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Create a project: pair images and labels, split the cases, plan the training.

    An image without a label is unlabelled. The layout of the folder is recognised from its names.

    Example: tracoco init scans -o heart --validation 2
    """
    from tracoco.api.projects import init as init_project

    result = init_project(
        data,
        out,
        labels=labels,
        layout=layout,
        validation=validation,
        test=test,
        group_pattern=group_pattern,
        hide_labels=hide_labels,
        ignore_label=ignore_label,
        drawn_slices=drawn_slices,
        label_table=label_table,
        paper_split=paper_split,
        paper_data=paper_data,
        partial=partial,
        crop_by_label=crop_by_label,
        dimensions=2 if dimensions == 2 else 3,
        memory_gb=memory_gb,
        device=device,
        update=update,
        dry_run=dry_run,
        workers=workers,
        folds=folds,
        stratify=stratify,
        seed=seed,
        progress=not as_json,
    )
    if as_json:
        where = {"project": str(result.project.root)} if result.project else {}
        print_json(where | pairing_json(result.proposal, result.update))
    elif result.update:
        _print_update(result, written=result.update.changed and not dry_run)
    elif dry_run:
        _print_pairing(result.proposal)
    else:
        _print_new(result)


def _print_new(result: "InitResult") -> None:
    project = result.project
    assert project is not None  # noqa: S101 - only a dry run writes none
    _print_notes(result.proposal)
    plan = project.load_plan()
    crop = " x ".join(map(str, plan.crop))
    print(
        f"crops of {crop} voxels, {plan.filters} filters, {plan.steps} steps; "
        f"edit {project.plan_file} to change"
    )
    print(f"next: tracoco check {project.root}, or at once tracoco prepare {project.root}")


def _print_update(result: "InitResult", *, written: bool) -> None:
    update = result.update
    assert update is not None  # noqa: S101 - the caller has one
    _print_pairing(result.proposal, update)
    redrawn = f"{len(update.redrawn)} drawn otherwise, " if update.redrawn else ""
    print(
        f"{len(update.added)} added, {len(update.newly_labelled)} newly labelled, "
        f"{redrawn}{update.unchanged} unchanged"
    )
    if written and result.project:
        print(f"next: tracoco prepare {result.project.root}")


def pairing_table(proposal: "Proposal", update: "Update | None" = None) -> Table:
    """A line a case: its files, and where it goes."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in ("case", "image", "label", "group", "part", *(["change"] if update else [])):
        table.add_column(column, overflow="fold")
    part_of, fold_of = _parts(proposal), _folds(proposal)
    for case in proposal.cases:
        part = part_of.get(case.id, "")
        part += f", fold {fold_of[case.id]}" if case.id in fold_of else ""
        cells = [case.id, _images(case), _label(case), case.group or "", part]
        cells += [update.change(case.id)] if update else []
        table.add_row(*map(escape, cells))
    return table


def _print_pairing(proposal: "Proposal", update: "Update | None" = None) -> None:
    """The table, and what there is to say about it."""
    print_table(pairing_table(proposal, update))
    _print_notes(proposal)


def _print_notes(proposal: "Proposal") -> None:
    """The layout, every note, and how many cases there are of which kind."""
    print(f"layout: {proposal.origin.layout}")
    for note in proposal.origin.notes:
        print(f"note: {note}")
    if proposal.origin.watermark:
        print(f"results will say: {proposal.origin.watermark}")
    counts = [f"{len(ids)} {part}" for part, ids in proposal.splits.parts.items()]
    print(f"{', '.join(counts)} cases")
    if proposal.folding and not proposal.splits.folds:
        print(f"{proposal.folding.folds} folds are dealt once the scans are read")


def pairing_json(proposal: "Proposal", update: "Update | None" = None) -> dict[str, Any]:
    """The same for a program."""
    part_of, fold_of = _parts(proposal), _folds(proposal)
    rows = [
        {
            "id": case.id,
            "images": [str(path) for path in case.images],
            "label": str(case.label) if case.label else None,
            "group": case.group,
            "part": part_of.get(case.id),
            "hidden": case.id in proposal.splits.hidden,
            **({"fold": fold_of[case.id]} if case.id in fold_of else {}),
            **({"change": update.change(case.id)} if update else {}),
        }
        for case in proposal.cases
    ]
    origin = proposal.origin
    return {
        "layout": origin.layout,
        "notes": list(origin.notes),
        "watermark": origin.watermark,
        "cases": rows,
    }


def _parts(proposal: "Proposal") -> dict[str, str]:
    return {id_: part for part, ids in proposal.splits.parts.items() for id_ in ids}


def _folds(proposal: "Proposal") -> dict[str, int]:
    folds = enumerate(proposal.splits.folds, start=1)
    return {id_: number for number, fold in folds for id_ in fold}


def _images(case: "Case") -> str:
    """Names alone: they lie side by side, and the whole paths are in cases.json."""
    return " + ".join(f"{path.parent.name}/{path.name}" for path in case.images)


def _label(case: "Case") -> str:
    if case.label is None:
        return "-"
    return "inside" if case.label in case.images else f"{case.label.parent.name}/{case.label.name}"
