"""The figure of the page: Dice against minutes, a panel for each data set, a point for each row."""

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 380, 330
"""Pixels of the plot of a panel."""
LEFT, RIGHT, TOP, BOTTOM = 52, 28, 40, 56
LETTER, LINE = 5.6, 11.0
"""Pixels of a letter and of a line of the small text."""
COLOURS = {"ours": "#c0392b", "known": "#1f4e8c", "peer": "#2e7d32", "other": "#8a8a8a"}
STYLE = (
    "<style>text{font:10px sans-serif;fill:#222}.head{font:bold 13px sans-serif}"
    ".axis{fill:#555}.line{stroke:#777;stroke-dasharray:5 4;fill:none}</style>"
)
LEAST = 4.0
"""Points of Dice that a panel spans at least, so that small differences look small."""
TICKS = (0.5, 1, 2, 5, 10, 20, 50, 100, 200)


@dataclass(frozen=True, slots=True)
class Point:
    """A row: its name, and means over its seeds."""

    name: str
    minutes: float
    dice: float
    kind: str = "other"
    """Of `COLOURS`."""


@dataclass(frozen=True, slots=True)
class Panel:
    """A data set."""

    title: str
    points: tuple[Point, ...]
    bound: float | None = None
    """Dice with all labels, which is a line."""


Box = tuple[float, float, float, float]
"""Left, top, right and bottom."""


def figure(panels: Sequence[Panel]) -> str:
    """An SVG with the panels beside each other; the scales of each are its own."""
    wide = LEFT + WIDTH + RIGHT
    columns = max(1, min(2, len(panels)))
    tall = TOP + HEIGHT + BOTTOM
    size = f'width="{wide * columns}" height="{tall * math.ceil(len(panels) / columns)}"'
    view = f'viewBox="0 0 {wide * columns} {tall * math.ceil(len(panels) / columns)}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {view} role="img">',
        "<title>Dice against minutes of training</title>",
        STYLE,
        '<rect width="100%" height="100%" fill="#fff"/>',
    ]
    for index, panel in enumerate(panels):
        place = f"translate({wide * (index % columns)} {tall * (index // columns)})"
        parts += [f'<g transform="{place}">', *_Drawing(panel).parts(), "</g>"]
    return "\n".join([*parts, "</svg>\n"])


class _Drawing:
    """One panel: a logarithmic scale of minutes, a linear one of Dice."""

    def __init__(self, panel: Panel) -> None:
        self._panel = panel
        minutes = [max(point.minutes, 0.05) for point in panel.points]
        self._first, self._last = math.log(min(minutes) / 1.5), math.log(max(minutes) * 2)
        dice = sorted([p.dice for p in panel.points] + ([panel.bound] if panel.bound else []))
        # A row that failed must not press all others together: it lies at the lower edge.
        middle = dice[len(dice) // 2]
        low = max(dice[0], middle - 2.5 * max(dice[-1] - middle, 2))
        room = max(0.06 * (dice[-1] - low), (LEAST - dice[-1] + low) / 2)
        self._low, self._high = low - room, dice[-1] + room

    def parts(self) -> list[str]:
        """Axes first, then points, and names where there is room."""
        title = html.escape(self._panel.title)
        found = [f'<text class="head" x="{LEFT}" y="20">{title}</text>', *self._axes()]
        if self._panel.bound is not None:
            y = self._y(self._panel.bound)
            found.append(f'<path class="line" d="M{LEFT} {y:.1f}h{WIDTH}"/>')
            found.append(f'<text class="axis" x="{LEFT + 4}" y="{y - 4:.1f}">all labels</text>')
        return [*found, *self._points()]

    def _x(self, minutes: float) -> float:
        place = (math.log(max(minutes, 0.05)) - self._first) / (self._last - self._first)
        return LEFT + WIDTH * place

    def _y(self, dice: float) -> float:
        place = (max(dice, self._low) - self._low) / (self._high - self._low)
        return TOP + HEIGHT * (1 - place)

    def _axes(self) -> list[str]:
        bottom = TOP + HEIGHT
        found = [
            f'<rect x="{LEFT}" y="{TOP}" width="{WIDTH}" height="{HEIGHT}" fill="none" '
            'stroke="#bbb"/>'
        ]
        for tick in TICKS:
            if self._first <= math.log(tick) <= self._last:
                x = self._x(tick)
                found.append(f'<path d="M{x:.1f} {TOP}V{bottom}" stroke="#eee"/>')
                found.append(
                    f'<text class="axis" x="{x:.1f}" y="{bottom + 15}" text-anchor="middle">'
                    f"{tick:g}</text>"
                )
        for value in _round_values(self._low, self._high):
            y = self._y(value)
            found.append(f'<path d="M{LEFT} {y:.1f}h{WIDTH}" stroke="#eee"/>')
            found.append(
                f'<text class="axis" x="{LEFT - 6}" y="{y + 3:.1f}" text-anchor="end">'
                f"{value:g}</text>"
            )
        middle = LEFT + WIDTH / 2
        found.append(
            f'<text class="axis" x="{middle}" y="{bottom + 34}" text-anchor="middle">minutes of '
            "training on one core (logarithmic)</text>"
        )
        found.append(f'<text class="axis" x="{LEFT - 40}" y="{TOP - 8}">Dice, %</text>')
        return found

    def _points(self) -> list[str]:
        points = sorted(self._panel.points, key=lambda p: (p.kind == "other", -p.dice))
        taken = [self._dot(point) for point in points]
        if self._panel.bound is not None:
            y = self._y(self._panel.bound)
            taken.append((LEFT, y - 14, LEFT + 60, y + 2))
        found, names = [], []
        for point in points:
            x, y, colour = self._x(point.minutes), self._y(point.dice), COLOURS[point.kind]
            told = html.escape(f"{point.name}: Dice {point.dice:.1f}, {point.minutes:.1f} minutes")
            found.append(
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{5 if point.kind != "other" else 3.5}" '
                f'fill="{colour}" fill-opacity=".85"><title>{told}</title></circle>'
            )
            place = _free_place(point.name, x, y, taken)
            if place:
                taken.append(place)
                names.append(
                    f'<text x="{place[0]:.1f}" y="{place[3] - 2:.1f}" style="fill:{colour}">'
                    f"{html.escape(point.name)}</text>"
                )
        return [*found, *names]

    def _dot(self, point: Point) -> Box:
        x, y = self._x(point.minutes), self._y(point.dice)
        return x - 4, y - 4, x + 4, y + 4


def _free_place(name: str, x: float, y: float, taken: Sequence[Box]) -> Box | None:
    """Where a name can stand beside its point without touching another; None if nowhere."""
    wide = LETTER * len(name)
    starts = [(x + 7, y - 6), (x - 7 - wide, y - 6), (x - wide / 2, y - 18), (x - wide / 2, y + 6)]
    starts += [(x + 5, y - 15), (x + 5, y + 4), (x - 5 - wide, y - 15), (x - 5 - wide, y + 4)]
    for left, top in starts:
        box = (left, top, left + wide, top + LINE)
        inside = left >= LEFT and box[2] <= LEFT + WIDTH and top >= TOP and box[3] <= TOP + HEIGHT
        if inside and not any(_overlap(box, other) for other in taken):
            return box
    return None


def _overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _round_values(low: float, high: float) -> list[float]:
    """Four to ten round numbers within a range."""
    step = next(s for s in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50) if (high - low) / s <= 10)
    return [round(n * step, 1) for n in range(math.ceil(low / step), math.floor(high / step) + 1)]
