"""`tracoco doctor`: what this machine and this installation can do, and what would help."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from tracoco.cli.app import AsJson, app
from tracoco.console import print_json, print_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tracoco.api.doctor import Finding

COLOURS = {"ok": "green", "note": "yellow", "problem": "red"}


@app.command()
def doctor(
    folder: Annotated[
        Path, typer.Argument(metavar="[FOLDER]", help="Where projects will be; its disk is tried.")
    ] = Path(),
    as_json: AsJson = False,
) -> None:
    """Check versions, device, precision, memory, disk, threads, speed and optional extras.

    Exit code: 0 when everything works, 1 when something does not.

    Example: tracoco doctor
    """
    from tracoco.api.doctor import doctor as examine

    found = examine(folder, progress=not as_json)
    if as_json:
        print_json(found.to_json())
    else:
        print_table(_table(found.rows))
        problems = sum(row.state == "problem" for row in found.rows)
        print("everything works" if found.healthy else f"problems: {problems}")
    raise typer.Exit(0 if found.healthy else 1)


def _table(rows: "Sequence[Finding]") -> Table:
    """Rows with something to do, between those that are as they should be.

    Dependencies that are as they should be share one row; `--json` has each of them.
    """
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for heading in ("what", "found", "", "advice"):
        table.add_column(heading, overflow="fold")
    good = [row for row in rows if row.kind == "dependency" and row.state == "ok"]
    for row in rows:
        if row in good[:1]:
            _add(table, "dependencies", _joined(good), "ok", "")
        elif row not in good:
            _add(table, row.name, row.value, row.state, row.advice)
    return table


def _joined(rows: "Iterable[Finding]") -> str:
    return ", ".join(f"{row.name} {row.value}" for row in rows)


def _add(table: Table, name: str, value: str, state: str, advice: str) -> None:
    """One row; nothing in it is read as markup."""
    table.add_row(Text(name), Text(value), Text(state, COLOURS[state]), Text(advice))
