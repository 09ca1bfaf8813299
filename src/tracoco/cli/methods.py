"""`tracoco methods`: what each method does, where it is from, what it costs, how near we are."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tracoco.cli.app import AsJson, app
from tracoco.console import print_json, print_table

WIDTHS = {
    "method": 20,
    "published": 13,
    "networks": 8,
    "decoders": 8,
    "passes": 9,
    "time": 4,
    "memory": 6,
}
RIGHT = ("time", "memory")
LEGEND = (
    "networks, decoders: those that learn + averages of them",
    "passes: crops through a network in a step of 2 + 2, with gradient + without",
    "time, memory: of a step on the demo's phantoms, relative to supervised",
    "next: tracoco methods NAME for formulas, readings and settings",
)


@app.command()
def methods(
    name: Annotated[str | None, typer.Argument(help="Show everything about this method.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the methods, or show formulas and settings of one.

    Example: tracoco methods ua-mt
    """
    from tracoco.methods.catalogue import all_facts, method_details

    rows = all_facts() if name is None else [method_details(name)]
    if as_json:
        print_json({"rows": rows})
    else:
        print_table(_list(rows) if name is None else _details(rows[0]))


def _list(rows: list[dict[str, Any]]) -> RenderableType:
    parts: list[RenderableType] = [Text(_line({key: key for key in WIDTHS}), "bold")]
    for row in rows:
        parts += ["", _head(row), *_told(row)]
    return Group(*parts, "", *(Text(line, "dim") for line in LEGEND))


def _details(row: dict[str, Any]) -> RenderableType:
    from tracoco.methods.catalogue import NOTATION

    header = Text(_line({key: key for key in WIDTHS}), "bold")
    reference = [_indented(row["reference"])] if row["reference"] else []
    parts: list[RenderableType] = [header, _head(row), *_told(row), *reference]
    if row["formulas"]:
        parts += ["", Text("Formulas", "bold"), *map(_indented, row["formulas"])]
    for title, key in (("Readings", "readings"), ("Not written", "not_written")):
        if row[key]:
            parts += ["", Text(title, "bold"), _columns([("-", line) for line in row[key]])]
    parts += ["", Text("Settings, changed by --set method.NAME=VALUE", "bold"), *_settings(row)]
    if row["formulas"]:
        parts += ["", Text("Letters", "bold"), _columns(NOTATION)]
    return Group(*parts, "", *(Text(line, "dim") for line in LEGEND[:-1]))


def _settings(row: dict[str, Any]) -> list[RenderableType]:
    """Those of each class of settings below what it says of all of them; the method's own first."""
    parts: list[RenderableType] = []
    for group in reversed(list(dict.fromkeys(setting["group"] for setting in row["settings"]))):
        parts.append(_indented(group, style="dim"))
        for setting in row["settings"]:
            if setting["group"] == group:
                default = "not given" if setting["default"] is None else setting["default"]
                parts.append(_indented(Text.assemble((setting["name"], "bold"), f" = {default}")))
                parts.append(_indented(setting["about"], by=4))
    return parts


def _told(row: dict[str, Any]) -> list[RenderableType]:
    told = [_indented(row["idea"]), _indented(row["faithful"] or "your own", style="dim")]
    return [*told, _indented(f"warning: {row['caution']}")] if row["caution"] else list(told)


def _head(row: dict[str, Any]) -> Text:
    from tracoco.methods.catalogue import cost_cells, published

    line = _line({"method": row["method"], "published": published(row)} | cost_cells(row))
    text = Text(line)
    text.stylize("bold", 0, len(row["method"]))
    return text


def _line(cells: dict[str, str]) -> str:
    return "  ".join(
        cells[key].rjust(width) if key in RIGHT else cells[key].ljust(width)
        for key, width in WIDTHS.items()
    ).rstrip()


def _indented(line: str | Text, *, by: int = 2, style: str = "") -> Padding:
    return Padding(
        line if isinstance(line, Text) else Text(line, style), (0, 0, 0, by), expand=False
    )


def _columns(rows: Sequence[tuple[str, str]]) -> Padding:
    """Two columns, of which the second is wrapped within itself."""
    grid = Table.grid(padding=(0, 1))
    for first, second in rows:
        grid.add_row(Text(first, no_wrap=True), Text(second))
    return Padding(grid, (0, 0, 0, 2), expand=False)
