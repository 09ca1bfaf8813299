"""`tracoco demo`, `init` and `prepare`: from scans to a project that can be trained."""

from pathlib import Path
from typing import Annotated

import typer

from tracoco.cli.app import AsJson, Device, Memory, PlannedFor, ProjectFolder, Seed, app
from tracoco.console import counted, print_json, print_table, progress_console


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder to write; it must not exist.")] = Path("demo"),
    seed: Seed = 0,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Go the whole way on phantom scans, to a report.

    It does what your own scans would get: init, prepare, train supervised and tracoco, predict,
    evaluate, report.

    Example: tracoco demo --out demo --seed 1
    """
    from tracoco.demo.run import run_demo
    from tracoco.report.tables import comparison_table

    result = run_demo(out, seed, device, None if as_json else progress_console())
    if as_json:
        print_json(result.to_json())
        return
    print_table(comparison_table(result.rows))
    for name, path in result.paths.items():
        print(f"{name:24}{path}")
    print(f"{'time':24}{result.seconds:.0f} s")


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
    from tracoco.project.proposal import SplitChoice

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


@app.command()
def prepare(
    project: ProjectFolder,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes; by default what suits machine and data.")
    ] = None,
) -> None:
    """Normalise and resample scans into the store; what is there already is left.

    Example: tracoco prepare heart
    """
    from tracoco.project.folder import Project
    from tracoco.project.prepare import prepare as fill_store

    opened = Project(project)
    splits = opened.load_splits()
    with counted("preparing", len(splits.ids), progress_console()) as on_case:
        count = fill_store(opened, on_case, workers)
    print(f"{count} cases in {opened.store_root}")
    print(f"next: tracoco train {project}{'' if splits.unlabelled else ' --method supervised'}")
    if not splits.unlabelled and len(splits.labelled) > 1:
        few = max(1, len(splits.labelled) // 10)
        print(
            f"every scan has a label: with --set data.labelled={few} in place of --method, the "
            f"labels of all but {few} are hidden and the others learnt from without"
        )
