"""Quality of the pseudo-labels over a training: kept figures, their table and their curves."""

import html
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from benchmarks.real.markdown import plain, table
from benchmarks.real.measured import OfRun

KIND = "pseudo_labels"
FORMS = ("batch", "training", "clean")
"""Passes that pseudo-labels can come from, `method.pseudo_labels`."""
COLOURS = dict(zip(FORMS, ("#1f77b4", "#2ca02c", "#d62728"), strict=True))
WIDTH, HEIGHT, LEFT, TOP, GAP = 340, 200, 46, 34, 70
"""Pixels of a panel, of the space for its scale and its title, and between two panels."""
ABOUT = """
How good are the pseudo-labels, and which pass should they come from? The checkpoints of a training
were asked for {crops} crops of training scans whose labels were hidden, always the same ones: Dice
of the pseudo-labels in percent, mean over the structures and both networks, from the three passes
that `method.pseudo_labels` offers. *Empty* is the fraction of the batches, over all checkpoints, in
which a network finds less than a tenth of the foreground.

"""


@dataclass(frozen=True, slots=True)
class PseudoLabels(OfRun):
    """The pseudo-labels of one checkpoint, from one pass."""

    step: int
    form: str
    crops: int
    dice: float
    """In percent: of all crops together, mean over the structures and both networks."""
    empty: float
    """Fraction of the batches in which a network finds less than a tenth of the foreground."""


def pseudo_labels_section(found: Sequence[PseudoLabels], picture: str) -> str:
    """The table of a grid and its picture as Markdown; empty if nothing was measured."""
    if not found:
        return ""
    steps = sorted({each.step for each in found})
    chosen = [steps[round(i * (len(steps) - 1) / 5)] for i in range(6)]
    head = ("row", "pass", *(f"step {step:,}" for step in chosen), "mean", "empty, %")
    cells = []
    for (row, form), each in _curves(found).items():
        dice = {one.step: one.dice for one in each}
        values = [f"{dice[step]:.1f}" if step in dice else "" for step in chosen]
        empty = f"{100 * fmean(one.empty for one in each):.1f}"
        cells.append([plain(row), f"`{form}`", *values, f"{fmean(dice.values()):.1f}", empty])
    image = f"\n![Dice of the pseudo-labels over the steps of a training]({picture})\n"
    return ABOUT.format(crops=found[0].crops) + table(head, cells) + image


def pseudo_labels_picture(found: Sequence[PseudoLabels]) -> str:
    """An SVG with a panel for each row: Dice of the pseudo-labels of each pass over the steps."""
    curves, rows = _curves(found), list(dict.fromkeys(each.row for each in found))
    last = max(each.step for each in found)
    parts = [_panel(row, index, curves, last) for index, row in enumerate(rows)]
    size = f'width="{len(rows) * (WIDTH + GAP) + 20}" height="{HEIGHT + TOP + 60}"'
    style = "<style>text{font:12px sans-serif}.head{font-weight:bold}.low{fill:#666}</style>"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
            "<title>Dice of the pseudo-labels over the steps of a training</title>",
            style,
            '<rect width="100%" height="100%" fill="#fff"/>',
            *parts,
            "</svg>\n",
        ]
    )


def _curves(found: Sequence[PseudoLabels]) -> dict[tuple[str, str], list[PseudoLabels]]:
    """The checkpoints of each row and pass, in the order of their steps."""
    curves: dict[tuple[str, str], list[PseudoLabels]] = {}
    for each in sorted(found, key=lambda one: (FORMS.index(one.form), one.step)):
        curves.setdefault((each.row, each.form), []).append(each)
    rows = list(dict.fromkeys(each.row for each in found))
    return dict(sorted(curves.items(), key=lambda item: rows.index(item[0][0])))


def _panel(
    row: str, index: int, curves: dict[tuple[str, str], list[PseudoLabels]], last: int
) -> str:
    left = LEFT + index * (WIDTH + GAP)

    def place(step: float, dice: float) -> str:
        return f"{left + WIDTH * step / last:.1f},{TOP + HEIGHT * (1 - dice / 100):.1f}"

    parts = [f'<text class="head" x="{left}" y="18">{html.escape(row)}: Dice, %</text>']
    for dice in (0, 25, 50, 75, 100):
        y = TOP + HEIGHT * (1 - dice / 100)
        parts.append(f'<path d="M{left},{y}h{WIDTH}" stroke="#ddd"/>')
        parts.append(f'<text class="low" x="{left - 30}" y="{y + 4}">{dice}</text>')
    for place_index, form in enumerate(FORMS):
        curve = curves.get((row, form), [])
        points = " ".join(place(each.step, each.dice) for each in curve)
        colour = COLOURS[form]
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" />')
        x, y = left + 80 * place_index, TOP + HEIGHT + 40
        parts.append(f'<text x="{x}" y="{y}" fill="{colour}">{form}</text>')
    parts.append(f'<text class="low" x="{left}" y="{TOP + HEIGHT + 18}">0</text>')
    end = left + WIDTH - 70
    parts.append(f'<text class="low" x="{end}" y="{TOP + HEIGHT + 18}">{last:,} steps</text>')
    return "\n".join(parts)
