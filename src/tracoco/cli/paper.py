"""`tracoco paper`: every table and figure of the paper as a command."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from tracoco.cli.app import AsJson, Device, Overrides, app
from tracoco.console import print_json, print_table


@app.command()
def paper(
    name: Annotated[str | None, typer.Argument(help="Table or figure. Default: list them.")] = None,
    projects: Annotated[
        list[str] | None,
        typer.Option(
            "--project",
            metavar="[DATASET=]FOLDER",
            help="Project to run it on; repeat for several.",
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds per row: 0, 1, ...")] = 1,
    preset: Annotated[
        str | None, typer.Option(help="Preset to use instead of the paper's settings.")
    ] = None,
    overrides: Overrides = None,
    labelled: Annotated[
        int | None, typer.Option(min=1, help="Number of labelled cases, instead of the paper's.")
    ] = None,
    rows: Annotated[
        list[str] | None,
        typer.Option("--row", help="Only rows with this name; repeat for several."),
    ] = None,
    best_on_test: Annotated[
        bool, typer.Option("--best-on-test", help="Select best on the test set, as papers do.")
    ] = False,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="File of the figure.")] = None,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Print a table or draw a figure of the paper.

    Without a project, it shows what was published. With one, it first runs or resumes what is
    missing, and shows your results beside the published ones.

    Example: tracoco paper component-ablation --project la=heart --seeds 3
    """
    if name is None:
        from tracoco.studies.paper.contents import list_paper

        contents = list_paper()
        if as_json:
            print_json({"rows": [asdict(row) for row in contents]})
        else:
            for row in contents:
                print(f"{row.name:22} {row.kind:7} {row.title}")
        return
    from tracoco.api.studies import paper as show

    shown = show(
        name,
        projects=projects or (),
        seeds=seeds,
        preset=preset,
        settings=overrides or (),
        labelled=labelled,
        rows=rows or (),
        best_on_test=best_on_test,
        out=out,
        device=device,
        progress=not as_json,
    )
    if as_json:
        print_json(shown.values)
        return
    print_table(shown.table)
    for line in shown.lines:
        print(line)
