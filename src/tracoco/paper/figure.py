"""A figure from the question to its file: the project, the drawing, and the numbers behind it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from tracoco.errors import UserError
from tracoco.files import atomic_path
from tracoco.paper.contents import Shown
from tracoco.paper.drawings.style import DOTS_PER_INCH
from tracoco.paper.request import PaperRequest
from tracoco.report.wording import spread

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """A figure, and what it shows in numbers."""

    figure: Figure
    rows: Sequence[Row]
    """All with the same keys; what the paper states of it stands under `published...`."""
    notes: tuple[str, ...] = ()
    """What must be known to read it."""


def figure_answer(
    name: str,
    title: str,
    draw: Callable[[PaperRequest, str], Drawn],
    request: PaperRequest,
    out: Path | None,
) -> Shown:
    """Draw a figure into a file and show its numbers.

    Args:
        name: of the figure.
        title: the same for a reader.
        draw: brings the runs of one project to their end and draws; its second argument is what
            the request calls the project.
        request: on which project, at which size.
        out: the file; in the project's folder if not given.
    """
    data, project = _only_project(name, request)
    path = out or project / "paper" / f"{name}.png"
    kind = _checked_kind(path)  # now, rather than after the trainings
    drawn = draw(request, data)
    with atomic_path(path) as temporary:
        drawn.figure.savefig(temporary, format=kind, dpi=DOTS_PER_INCH)
    values = {
        "figure": name,
        "title": title,
        "file": str(path),
        "notes": list(drawn.notes),
        "rows": list(drawn.rows),
    }
    return Shown(_table(title, drawn.rows), values, (*drawn.notes, f"figure: {path}"))


def _only_project(name: str, request: PaperRequest) -> tuple[str, Path]:
    if len(request.projects) != 1:
        raise UserError(
            f"a figure is drawn from one project; tracoco paper {name} --project [DATASET=]FOLDER"
        )
    ((data, path),) = request.projects.items()
    return data, path


def _checked_kind(path: Path) -> str:
    """What kind of file it is to be, by its suffix."""
    kind = path.suffix.lstrip(".").lower() or "png"
    known = sorted(Figure().canvas.get_supported_filetypes())
    if kind not in known:
        raise UserError(f"{path}: a figure cannot be written as '{kind}'; use {', '.join(known)}")
    if path.is_dir():
        raise UserError(f"{path} is a folder; give the figure's file, e.g. {path / 'figure.png'}")
    return kind


def _table(title: str, rows: Sequence[Row]) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, title_justify="left")
    columns = {heading: [row[heading] for row in rows] for heading in (rows[0] if rows else {})}
    shown = []
    for heading, values in columns.items():
        if heading.endswith("_sd"):
            continue  # it stands behind its mean
        cells = _cells(values, columns.get(f"{heading}_sd"))
        words = any(isinstance(value, str) for value in values)
        # A heading takes several lines, so that no value has to.
        table.add_column(
            heading.replace("published", "publ.").replace("_", "\n"),
            min_width=max(map(len, cells)),
            justify="left" if words else "right",
        )
        shown.append(cells)
    for line in zip(*shown, strict=True):
        table.add_row(*map(Text, line))
    table.title = Text(title)
    return table


def _cells(values: Sequence[Any], spreads: Sequence[float | None] | None) -> list[str]:
    """A column's values with as many decimals as its largest number leaves room for."""
    floats = [value for value in values if isinstance(value, float)]
    decimals = 2 if max(map(abs, floats), default=0.0) >= 1 else 3
    return [
        spread(value, deviation, decimals)
        if value is None or isinstance(value, float)
        else str(value)
        for value, deviation in zip(values, spreads or [None] * len(values), strict=True)
    ]
