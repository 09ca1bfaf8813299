"""Charts of a run's log: values picked, smoothed and thinned, and the places of their lines."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from tracoco.evaluation.calibration import Calibration
from tracoco.runs.folder import CHOSEN_ON_TEST
from tracoco.runs.log import StepRecord
from tracoco.text import number, short

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
    across: str = "steps"
    """What runs from left to right."""
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
        fraction = (value - self.low) / (self.high - self.low)
        return round(float(self.start + fraction * (self.end - self.start)), 1)

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


MOST_POINTS = 500
SMOOTHED_FROM = 20
"""Values from which on a running mean says more than the values themselves."""
SMOOTHING = 25
"""The running mean is as wide as this part of the log."""


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """Values at the steps that have one."""

    steps: Values
    values: Values

    def __len__(self) -> int:
        return len(self.steps)

    def __mul__(self, factor: float) -> "Series":
        """The same in another unit, e.g. percent."""
        return Series(self.steps, self.values * factor)

    @property
    def smoothed(self) -> "Series":
        """Running mean, centred, so that it does not lag; narrower towards both ends."""
        half = len(self) // SMOOTHING // 2
        sums = np.concatenate(([0.0], np.cumsum(self.values)))
        middle = np.arange(len(self))
        first, last = np.maximum(middle - half, 0), np.minimum(middle + half + 1, len(self))
        return Series(self.steps, (sums[last] - sums[first]) / (last - first))

    @property
    def thinned(self) -> "Series":
        """At most 500 points: both ends, and the extremes of each stretch, so no peak is lost."""
        if len(self) <= MOST_POINTS:
            return self
        stretches = np.array_split(np.arange(len(self)), MOST_POINTS // 2 - 1)
        kept = {0, len(self) - 1}
        for stretch in stretches:
            values = self.values[stretch]
            kept |= {int(stretch[values.argmin()]), int(stretch[values.argmax()])}
        order = sorted(kept)
        return Series(self.steps[order], self.values[order])


def pick(log: Sequence[StepRecord], figure: Callable[[StepRecord], float | None]) -> Series:
    """One figure of each record; records without it, or with a NaN, are passed over."""
    pairs = [(record.step, figure(record)) for record in log]
    known = [(step, value) for step, value in pairs if value is not None and np.isfinite(value)]
    array = np.array(known, dtype=np.float64).reshape(-1, 2)
    return Series(array[:, 0], array[:, 1])


def lines(series: Series, name: str, colour: int = 1) -> list[Line]:
    """The values faint and their running mean over them; short series as they are."""
    if len(series) < SMOOTHED_FROM:
        thin = series.thinned
        return [Line(name, thin.steps, thin.values, colour=colour)]
    raw, smooth = series.thinned, series.smoothed.thinned
    return [
        Line(name, raw.steps, raw.values, "raw", colour),
        Line(name, smooth.steps, smooth.values, "line", colour),
    ]


def loss_charts(log: Sequence[StepRecord]) -> list[Chart]:
    """The loss, and each of its terms where there are several."""
    names = list(dict.fromkeys(name for record in log for name in record.terms))
    charts = [_loss_chart(name, pick(log, _term(name))) for name in names]
    if len(names) > 1:
        charts.insert(0, _loss_chart("loss", pick(log, lambda record: record.loss)))
    return [chart for chart in charts if chart]


def validation_chart(log: Sequence[StepRecord]) -> Chart | None:
    """Dice in percent of the cases that choose the best checkpoint, if there are any."""
    test = pick(log, lambda record: record.test_dice) * 100
    chosen_on = "test" if len(test) else "validation"
    dice = test if len(test) else pick(log, lambda record: record.validation_dice) * 100
    if not len(dice):
        return None
    best = int(dice.values.argmax())
    about = f"mean of the {chosen_on} cases; best {number(dice.values[best])} % at step "
    about += f"{dice.steps[best]:,.0f}"
    about += f"; {CHOSEN_ON_TEST}" if chosen_on == "test" else ""
    thin = dice.thinned
    title = f"{chosen_on} Dice"
    line = Line(title, thin.steps, thin.values, "points", colour=3)
    return Chart(title, [line], f"{number(dice.values[-1])} %", about)


def rate_chart(log: Sequence[StepRecord]) -> Chart | None:
    """The learning rate."""
    rate = pick(log, lambda record: record.rate)
    if not len(rate):
        return None
    thin = rate.thinned
    line = Line("learning rate", thin.steps, thin.values, colour=5)
    return Chart("learning rate", [line], short(rate.values[-1]))


def reliability_chart(calibration: Calibration) -> Chart:
    """Accuracy by confidence, in percent; on the dashed line probabilities mean what they say."""
    rows = zip(calibration.voxels, calibration.confidence, calibration.accuracy, strict=True)
    known = np.array([(sure, right) for count, sure, right in rows if count]).reshape(-1, 2) * 100
    ends = np.array([0.0, 100.0])
    return Chart(
        "accuracy by confidence, %",
        [
            Line("as it should be", ends, ends, "dashed", 0),
            Line("this prediction", known[:, 0], known[:, 1], "points"),
        ],
        latest=f"calibration error {number(calibration.ece)} %",
        about="Voxels with 1 % or more foreground, by the probability of their most probable "
        "class. Below the dashed line the network is surer than it is right.",
        across="confidence",
    )


def _term(name: str) -> Callable[[StepRecord], float | None]:
    return lambda record: record.terms.get(name)


def _loss_chart(name: str, values: Series) -> Chart | None:
    if not len(values):
        return None
    return Chart(name, lines(values, name), short(values.smoothed.values[-1]))
