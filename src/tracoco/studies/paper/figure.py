"""A figure from the question to its file: the project, the drawing, and the numbers behind it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tracoco.errors import UserError
from tracoco.files import atomic_path
from tracoco.studies.paper.contents import Shown
from tracoco.studies.paper.figures.drawing_style import DOTS_PER_INCH
from tracoco.studies.paper.published import PublishedPoint, published_figure, published_figures
from tracoco.studies.paper.request import PaperRequest
from tracoco.text import UNDEFINED, number, spread

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """A figure, and what it shows in numbers."""

    figure: Figure
    rows: Sequence[Row]
    """All with the same keys; what the paper states of it stands under `published...`."""
    notes: tuple[str, ...] = ()
    """What must be known to read it."""


def show_figure(
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


@dataclass(frozen=True, slots=True)
class FigureFacts:
    """What is known of a figure before it is drawn."""

    shows: str
    data: tuple[str, ...]
    """Data sets that the paper draws it from, the first one by default."""


FACTS = {
    "supervised-by-labels": FigureFacts(
        "It shows Dice and 95HD of TraCoCo and of supervised learning by the number of labelled "
        "scans.",
        ("la", "pancreas", "brats19"),
    ),
    "confidence": FigureFacts(
        "It shows histograms of the foreground probability, for voxels of the true background and "
        "of the true foreground: with CRC they lie closer to 0 and 1 than with MSE.",
        ("pancreas",),
    ),
    "thresholds": FigureFacts(
        "It shows Dice by gamma, with beta at 0.1, and by beta, with gamma at 0.65.",
        ("brats19",),
    ),
    "training-time": FigureFacts(
        "It shows how long the training of each method takes: longest with CAC, half as long with "
        "TraCoCo, and less with the methods that have an averaged teacher.",
        ("brats19",),
    ),
    "divergence": FigureFacts(
        "It shows how far the predictions of two networks are apart at ten stages of the training, "
        "for mean teacher, co-training and TraCoCo.",
        ("brats19",),
    ),
    "qualitative": FigureFacts(
        "It shows a scan of each data set, segmented by SASSNet, UA-MT, supervised learning and "
        "TraCoCo, beside the ground truth.",
        ("pancreas", "la", "brats19"),
    ),
    "context": FigureFacts(
        "It shows how the predictions of SASSNet, UA-MT, CAC and TraCoCo in the overlap of two "
        "crops change with what surrounds it.",
        ("la",),
    ),
}

QUANTITIES = {
    "dice_gain_over_supervised_percent": ("Dice gain over supervised learning, points", 2),
    "dice_percent": ("Dice, %", 2),
    "late_overlap_ratio_percent": ("overlap ratio at 9/10 of the training, %", 1),
    "late_distance_voxels": ("distance at 9/10 of the training, voxels", 0),
    "batch_crops": ("crops of a batch", 0),
    "crop_side_voxels": ("side of a crop, voxels", 0),
    "time_as_share_of_cac": ("training time, as a fraction of that of CAC", 1),
}
"""The quantities of the figures in words, and with how many decimals they are printed."""


def show_published_figure(name: str, title: str) -> Shown:
    """What the paper states of a figure, and how to draw one's own."""
    facts = FACTS[name]
    points = published_figure(name) if name in published_figures() else []
    notes = (facts.shows, *([] if points else ["The paper states no number of it."]))
    shown: list[RenderableType] = [Text(title), *map(Text, notes)]
    if points:
        shown += [Text(), _published_table(points), Text()]
    others = f" (or {', '.join(facts.data[1:])})" if facts.data[1:] else ""
    line = f"draw yours: tracoco paper {name} --project {facts.data[0]}=FOLDER{others}"
    values = {
        "figure": name,
        "title": title,
        "file": None,
        "notes": list(notes),
        "rows": [_row(point) for point in points],
    }
    return Shown(Group(*shown), values, (line,))


def _row(point: PublishedPoint) -> dict[str, Any]:
    return {
        "dataset": point.dataset,
        "labelled": point.labelled,
        "series": point.series,
        "quantity": point.quantity,
        "published": point.value,
    }


def _published_table(points: list[PublishedPoint]) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for heading in ("data", "labels", "series", "quantity"):
        table.add_column(heading, justify="right" if heading == "labels" else "left")
    table.add_column("published", justify="right", no_wrap=True)
    for point in points:
        labels = UNDEFINED if point.labelled is None else str(point.labelled)
        words, decimals = QUANTITIES[point.quantity]
        cells = (point.dataset, labels, point.series, words, number(point.value, decimals))
        table.add_row(*map(Text, cells))
    return table
