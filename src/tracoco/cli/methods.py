"""`tracoco methods`: what each method does, where it is from, what it costs, how near we are."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tracoco.cli.app import AsJson, app, complete_method
from tracoco.console import print_json, print_table, say
from tracoco.errors import UserError

if TYPE_CHECKING:
    from tracoco.methods.catalogue import MethodEntry, Setting

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
    "recipes: of a training, chosen by `train --recipe`; common is the same for all methods",
    "time, memory: of a step on the demo's phantoms, relative to supervised",
    "next: tracoco methods NAME for formulas, readings and settings",
)


@app.command()
def methods(
    name: Annotated[
        str | None,
        typer.Argument(help="Show everything about this method.", autocompletion=complete_method),
    ] = None,
    family: Annotated[
        str | None, typer.Option(help="Only of this family, e.g. co-training or mixing.")
    ] = None,
    dimensions: Annotated[
        int | None, typer.Option(metavar="2|3", help="Only those for 2D or for 3D crops.")
    ] = None,
    max_cost: Annotated[
        float | None, typer.Option(help="Only steps of at most this time; supervised takes 1.")
    ] = None,
    since: Annotated[
        int | None, typer.Option(metavar="YEAR", help="Only those published from this year on.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the methods by family, or show formulas and settings of one.

    Methods of installed packages are listed too.

    Example: tracoco methods --family co-training --max-cost 5
    """
    from tracoco.methods.catalogue import list_methods, method_details

    if name is not None:
        if {family, dimensions, max_cost, since} != {None}:
            raise UserError("a method and filters are given; leave out one of them")
        entries: Sequence[MethodEntry] = [method_details(name)]
    else:
        found = list_methods(family=family, dimensions=dimensions, max_cost=max_cost, since=since)
        entries = found.entries
        for problem in found.problems:
            say(f"warning: {problem}")
    if as_json:
        print_json({"rows": [entry.to_json() for entry in entries]})
    else:
        print_table(_list(entries) if name is None else _details(entries[0]))


def _list(entries: Sequence["MethodEntry"]) -> RenderableType:
    from tracoco.methods import FAMILIES

    if not entries:
        return Text("no method is like that; leave out a filter")
    parts: list[RenderableType] = [Text(_line({key: key for key in WIDTHS}), "bold")]
    for family, about in (*FAMILIES.items(), (None, "they name no family")):
        members = [entry for entry in entries if entry.row.family == family]
        if members:
            title = (family or "others").capitalize()
            parts += ["", Text.assemble((title, "bold underline"), f": {about}")]
        for entry in members:
            parts += ["", _head(entry), *_description(entry)]
    return Group(*parts, "", *(Text(line, "dim") for line in LEGEND))


def _details(entry: "MethodEntry") -> RenderableType:
    from tracoco.methods.catalogue import NOTATION

    header, about = Text(_line({key: key for key in WIDTHS}), "bold"), entry.about
    parts: list[RenderableType] = [header, _head(entry), *_description(entry)]
    if entry.needs:
        parts.append(_indented(f"needs {entry.needs}"))
    if about:
        parts += [_indented(about.reference)]
        parts += ["", Text("Formulas", "bold"), *map(_indented, about.formulas)]
        parts += _listed("Readings", about.readings) + _listed("Not written", about.not_written)
    parts += _listed("Released recipe, chosen by --recipe released", entry.released_recipe)
    heading = Text("Settings, changed by --set method.NAME=VALUE", "bold")
    parts += ["", heading, *_settings(entry.settings or ())]
    if about:
        parts += ["", Text("Letters", "bold"), _columns(NOTATION)]
    return Group(*parts, "", *(Text(line, "dim") for line in LEGEND[:-1]))


def _listed(title: str, lines: Sequence[str]) -> list[RenderableType]:
    """Lines below their title, if there are any."""
    if not lines:
        return []
    return ["", Text(title, "bold"), _columns([("-", line) for line in lines])]


def _settings(settings: Sequence["Setting"]) -> list[RenderableType]:
    """Those of each class of settings below what it says of all of them; the method's own first."""
    parts: list[RenderableType] = []
    for group in reversed(list(dict.fromkeys(setting.group for setting in settings))):
        parts.append(_indented(group, style="dim"))
        for setting in settings:
            if setting.group == group:
                default = "not given" if setting.default is None else setting.default
                parts.append(_indented(Text.assemble((setting.name, "bold"), f" = {default}")))
                parts.append(_indented(setting.about, by=4))
    return parts


def _description(entry: "MethodEntry") -> list[RenderableType]:
    row = entry.row
    near = f"{row.faithful or 'not of this package'}; recipes: {', '.join(entry.recipes)}"
    lines = [_indented(row.idea), _indented(near, style="dim")]
    if row.dimensions != (2, 3):
        lines.append(_indented(f"for {row.dimensions[0]}D crops alone", style="dim"))
    return [*lines, _indented(f"warning: {row.caution}")] if row.caution else list(lines)


def _head(entry: "MethodEntry") -> Text:
    cells = {"method": entry.name, "published": entry.published} | entry.cost_cells
    text = Text(_line(cells))
    text.stylize("bold", 0, len(entry.name))
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
