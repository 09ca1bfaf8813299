"""`tracoco init`: create a project from a folder of scans, or add scans to one."""

from pathlib import Path
from typing import Annotated

import typer

from tracoco.cli.app import AsJson, Memory, PlannedFor, Seed, app


@app.command()
def init(
    data: Annotated[Path, typer.Argument(help="Folder of scans, or a CSV that lists them.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The project's folder, to be made.")
    ] = None,
    labels: Annotated[Path | None, typer.Option(help="Labels, if not in DATA/labels.")] = None,
    layout: Annotated[str | None, typer.Option(help="How DATA is laid out, if not seen.")] = None,
    validation: Annotated[int, typer.Option(min=0, help="Labelled cases to select with.")] = 0,
    test: Annotated[int, typer.Option(min=0, help="Labelled cases to keep away.")] = 0,
    group_pattern: Annotated[
        str | None, typer.Option(help="Whose scan, by a case's name, e.g. '(patient\\d+)'.")
    ] = None,
    hide_labels: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Use only N labels, as a simulation.")
    ] = None,
    paper_split: Annotated[
        str | None, typer.Option(help="Of la, pancreas, brats19 or acdc: the paper's own lists.")
    ] = None,
    recipe: Annotated[
        str | None, typer.Option(help="la, pancreas, brats19 or acdc, as downloaded.")
    ] = None,
    partial: Annotated[bool, typer.Option("--partial", help="A part of a recipe's data.")] = False,
    crop_by_label: Annotated[
        bool, typer.Option("--crop-by-label", help="Recipes: crop as the field does.")
    ] = False,
    dimensions: Annotated[int, typer.Option(min=2, max=3, help="2 for slices.")] = 3,
    memory_gb: Memory = None,
    device: PlannedFor = None,
    update: Annotated[
        bool, typer.Option("--update", help="Add new scans and labels to the project.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the pairing only.")] = False,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes that read scans.")] = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Pair images and labels, split them and plan.

    An image without a label is unlabelled. How the folder is laid out is seen from its names.

    Example: tracoco init scans -o heart --validation 2
    """
    from tracoco.cli.init_request import InitRequest
    from tracoco.cli.make_project import make_project, update_project
    from tracoco.project.create import SplitChoice

    request = InitRequest(
        data=data,
        out=out,
        labels=labels,
        layout=layout,
        choice=SplitChoice(validation, test, seed, hide_labels, group_pattern),
        paper_split=paper_split,
        recipe=recipe,
        partial=partial,
        crop_by_label=crop_by_label,
        dimensions=2 if dimensions == 2 else 3,
        memory_gb=memory_gb,
        device=device,
        dry_run=dry_run,
        workers=workers,
        as_json=as_json,
    )
    (update_project if update else make_project)(request)
