"""A figure without a project: what it shows, and the numbers that the paper states of it."""

from dataclasses import dataclass
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tracoco.paper.contents import Shown
from tracoco.paper.published import PublishedPoint, published_figure, published_figures
from tracoco.report.wording import UNDEFINED, number


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
        "It shows how far the answers of two networks are apart at ten stages of the training, for "
        "mean teacher, co-training and TraCoCo.",
        ("brats19",),
    ),
    "qualitative": FigureFacts(
        "It shows a scan of each data set, segmented by SASSNet, UA-MT, supervised learning and "
        "TraCoCo, beside the ground truth.",
        ("pancreas", "la", "brats19"),
    ),
    "context": FigureFacts(
        "It shows how the answers of SASSNet, UA-MT, CAC and TraCoCo in the overlap of two crops "
        "change with what surrounds it.",
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


def figure_listing(name: str, title: str) -> Shown:
    """What the paper states of a figure, and how to draw one's own."""
    facts = FACTS[name]
    points = published_figure(name) if name in published_figures() else []
    notes = (facts.shows, *([] if points else ["The paper states no number of it."]))
    shown: list[RenderableType] = [Text(title), *map(Text, notes)]
    if points:
        shown += [Text(), _table(points), Text()]
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


def _table(points: list[PublishedPoint]) -> Table:
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
