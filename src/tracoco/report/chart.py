"""Where the lines of a small chart go: numbers in, places on a drawing out."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

Values = NDArray[np.float64]
Style = Literal["raw", "line", "points", "dashed"]

WIDTH, HEIGHT = 360.0, 190.0
LEFT, RIGHT, TOP, BOTTOM = 46.0, 340.0, 10.0, 166.0
"""The frame that the lines are drawn in; the rest is for the numbers of the axes."""


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """One series."""

    name: str
    steps: Values
    values: Values
    style: Style = "line"
    colour: int = 1
    """Which of the page's line colours."""


@dataclass(frozen=True, slots=True, eq=False)
class Chart:
    """Lines over the same steps, under one title."""

    title: str
    lines: Sequence[Line]
    latest: str = ""
    """The figure that the chart has arrived at."""
    about: str = ""
    from_zero: bool = True
    spans: Sequence[tuple[int, int]] = ()
    """Steps to shade, first and last."""

    @property
    def legend(self) -> list[Line]:
        """The lines that need a name: none if there is only one thing to see."""
        named = [line for line in self.lines if line.style != "raw"]
        return named if len(named) > 1 else []


@dataclass(frozen=True, slots=True)
class Tick:
    """A number on an axis, and where it stands."""

    place: float
    text: str


@dataclass(frozen=True, slots=True)
class Stroke:
    """A line as the path of a drawing; points besides where they are few enough to count."""

    style: Style
    colour: int
    path: str
    dots: list[tuple[float, float]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Drawing:
    """All that a template needs to draw a chart."""

    strokes: list[Stroke]
    x_ticks: list[Tick]
    y_ticks: list[Tick]
    shades: list[tuple[float, float]]
    """Left edge and width."""


def draw(chart: Chart) -> Drawing:
    """Place a chart's lines in its frame."""
    last_step = max(float(line.steps.max()) for line in chart.lines)
    across = _Scale(0.0, max(last_step, 1.0), LEFT, RIGHT)
    up = _Scale(*_range(chart), BOTTOM, TOP)
    return Drawing(
        strokes=[_stroke(line, across, up) for line in chart.lines],
        x_ticks=[Tick(across(at), f"{at:,.0f}") for at in across.round_values()],
        y_ticks=[Tick(up(at), f"{at:.6g}") for at in up.round_values()],
        shades=[(across(a), max(across(b) - across(a), 1.0)) for a, b in chart.spans],
    )


@dataclass(frozen=True, slots=True)
class _Scale:
    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return round(float(self.start + share * (self.end - self.start)), 1)

    def round_values(self) -> list[float]:
        """A few values to write on the axis."""
        values = MaxNLocator(nbins=5, steps=[1, 2, 2.5, 5, 10]).tick_values(self.low, self.high)
        return [float(value) for value in values if self.low <= value <= self.high]


def _range(chart: Chart) -> tuple[float, float]:
    """Lowest and highest value of the frame, never the same."""
    values = np.concatenate([line.values for line in chart.lines])
    low, high = float(values.min()), float(values.max())
    if chart.from_zero:
        low, high = min(low, 0.0), max(high, 0.0)
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _stroke(line: Line, across: _Scale, up: _Scale) -> Stroke:
    places = [
        (across(step), up(value)) for step, value in zip(line.steps, line.values, strict=True)
    ]
    path = "M" + " ".join(f"{x:g},{y:g}" for x, y in places)
    return Stroke(line.style, line.colour, path, places if line.style == "points" else [])
