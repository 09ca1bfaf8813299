"""A picture of the results: a dot a seed and a line at their mean, row by row."""

import html
import sys
from statistics import fmean

from benchmarks.real.rows import GridResults, Row

LEFT, WIDTH, LINE, HEAD = 250, 440, 20, 34
"""Pixels: the names, the dots, a row, and the title of a panel with the scale below it."""
Panel = tuple[str, list[tuple[Row, list[float]]]]


def picture(grids: list[GridResults]) -> str:
    """An SVG with a panel for each data set; the scale of each is its own."""
    parts, top = list[str](), 10
    for panel in _panels(grids):
        parts += _draw(panel, top)
        top += 2 * HEAD + LINE * len(panel[1])
    size = f'width="{LEFT + WIDTH + 40}" height="{top}"'
    style = "<style>text{font:12px sans-serif}.head{font-weight:bold}.low{fill:#666}</style>"
    ground = '<rect width="100%" height="100%" fill="#fff"/>'
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
    return "\n".join(
        [svg, "<title>Dice by row and seed</title>", style, ground, *parts, "</svg>\n"]
    )


def _panels(grids: list[GridResults]) -> list[Panel]:
    found = []
    for grid in grids:
        for name, rows in grid.rows.items():
            grouped = sorted(rows, key=lambda row: row.labelled or sys.maxsize)  # as the tables are
            dice = [
                (r, [x.dice for x in r.results.values() if x.dice is not None]) for r in grouped
            ]
            if shown := [(row, values) for row, values in dice if values]:
                title = grid.grid.title.replace("`", "")
                several = f", {name}" if len(grid.rows) > 1 else ""
                found.append((f"{title}{several}: Dice, %", shown))
    return found


def _draw(panel: Panel, top: int) -> list[str]:
    title, rows = panel
    every = [value for _, values in rows for value in values]
    low, high = min(every) // 1 - 1, max(every) // 1 + 2

    def x(value: float) -> str:
        return f"{LEFT + WIDTH * (value - low) / (high - low):.1f}"

    parts = [f'<text x="10" y="{top + 14}" class="head">{html.escape(title)}</text>']
    end = top + HEAD + LINE * len(rows)
    for place, anchor in ((low, "start"), ((low + high) / 2, "middle"), (high, "end")):
        parts.append(f'<path d="M{x(place)} {top + HEAD - 8}V{end}" stroke="#ddd"/>')
        scale = f'<text class="low" x="{x(place)}" y="{end + 14}" text-anchor="{anchor}">'
        parts.append(f"{scale}{place:g}</text>")
    for index, (row, values) in enumerate(rows):
        y = top + HEAD + LINE * index + 4
        name = html.escape(f"{row.name}, {row.labelled or 'all'} labelled")
        parts.append(f'<text x="{LEFT - 10}" y="{y + 4}" text-anchor="end">{name}</text>')
        line = f'<path d="M{x(fmean(values))} {y - 8}v16" stroke="#c33" stroke-width="2"/>'
        dots = [
            f'<circle cx="{x(v)}" cy="{y}" r="4" fill="#36c" fill-opacity=".6"/>' for v in values
        ]
        parts += [*dots, line]
    return parts
