"""`tracoco demo`, `init` and `prepare`: from scans to a project that can be trained."""

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from tracoco.cli.app import AsJson, Device, ProjectFolder, Seed, app
from tracoco.console import counted, print_json, print_table, progress_console
from tracoco.errors import UserError


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
    data: Annotated[Path, typer.Argument(help="Folder with images/ and labels/.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The project's folder, to be made.")],
    labels: Annotated[Path | None, typer.Option(help="Labels, if not in DATA/labels.")] = None,
    validation: Annotated[int, typer.Option(min=0, help="Labelled cases to select with.")] = 0,
    test: Annotated[int, typer.Option(min=0, help="Labelled cases to keep away.")] = 0,
    paper_split: Annotated[
        str | None, typer.Option(help="Of la, pancreas, brats19 or acdc: the paper's own lists.")
    ] = None,
    dimensions: Annotated[int, typer.Option(min=2, max=3, help="2 for slices.")] = 3,
    seed: Seed = 0,
) -> None:
    """Pair images and labels, split them and plan.

    An image without a label is unlabelled.

    Example: tracoco init scans -o heart --validation 2
    """
    from tracoco.paper.case_lists import listed_splits
    from tracoco.project.folder import init_project

    if paper_split and (validation or test):
        raise UserError("--paper-split names all cases; leave out --validation and --test")
    split = partial(listed_splits, paper_split) if paper_split else None
    dims: Literal[2, 3] = 2 if dimensions == 2 else 3
    project = init_project(
        data,
        out,
        labels=labels,
        validation=validation,
        test=test,
        dimensions=dims,
        seed=seed,
        split=split,
    )
    splits, plan = project.load_splits(), project.load_plan()
    print(
        f"{len(splits.labelled)} labelled, {len(splits.unlabelled)} unlabelled, "
        f"{len(splits.validation)} validation, {len(splits.test)} test cases"
    )
    print(f"crops of {' x '.join(map(str, plan.crop))} voxels; edit {project.plan_file} to change")
    print(f"next: tracoco prepare {out}")


@app.command()
def prepare(project: ProjectFolder) -> None:
    """Normalise and resample scans into the store.

    Example: tracoco prepare heart
    """
    from tracoco.project.folder import Project
    from tracoco.project.prepare import prepare as fill_store

    opened = Project(project)
    splits = opened.load_splits()
    with counted("preparing", len(splits.ids), progress_console()) as on_case:
        count = fill_store(opened, on_case)
    print(f"{count} cases in {opened.store_root}")
    print(f"next: tracoco train {project}{'' if splits.unlabelled else ' --method supervised'}")
