"""`tracoco next`: which scans to label next."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tracoco.cli.app import AsJson, Device, ProjectFolder, RunArgument, app
from tracoco.console import print_json, print_table

if TYPE_CHECKING:
    from rich.table import Table

    from tracoco.labelling.next_scans import NextScans


@app.command(name="next")
def next_(
    project: ProjectFolder,
    run: RunArgument,
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="Number of scans.")] = 5,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Folder of the drafts. Default: PROJECT/drafts."),
    ] = None,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Choose the scans to label next, and write draft labels to correct.

    The scans are uncertain (the two networks disagree, the entropy is high), unlike those that are
    labelled, and unlike each other. If interrupted, run the same command again: scores are kept.

    Example: tracoco next heart heart/runs/tracoco-seed0 -n 5
    """
    from tracoco.api.labelling import next_scans

    result = next_scans(project, run, count=count, out=out, device=device, progress=not as_json)
    if as_json:
        about = {"project": str(project), "run": str(result.run), "drafts": str(result.folder)}
        rows = [row.to_json() for row in result.rows]
        print_json({**about, "notes": list(result.notes), "rows": rows})
        return
    print_table(_table(result))
    for row in result.rows:
        print(f"{row.choice.case}: {row.choice.why}")
        if row.kept:
            print(f"{row.choice.case}: {row.draft} was changed by somebody and is left as it is")
    for note in result.notes:
        print(f"note: {note}")
    print(f"{len(result.rows)} of {result.unlabelled} unlabelled scans; drafts in {result.folder}")
    print(f"next: correct them, then tracoco update {project} --labels {result.folder} --train")


def _table(result: "NextScans") -> "Table":
    from rich.markup import escape
    from rich.table import Table

    from tracoco.text import number

    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("case", overflow="fold")
    for heading in ("disagreement\n%", "entropy", "distance"):
        table.add_column(heading, justify="right")
    table.add_column("image", overflow="fold")
    for row in result.rows:
        choice = row.choice
        percent = None if choice.disagreement is None else 100 * choice.disagreement
        figures = (number(percent), number(choice.entropy, 2), number(choice.novelty, 2))
        images = " + ".join(map(str, row.images))
        table.add_row(escape(choice.case), *figures, escape(images))
    return table
