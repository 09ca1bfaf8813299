"""A figure over the steps of a log: picked, smoothed, and thinned to what a page can show."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tracoco.report.chart import Line, Values
from tracoco.training.run_log import Record

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


def pick(log: Sequence[Record], figure: Callable[[Record], float | None]) -> Series:
    """One figure of each record; records without it, or with a NaN, are passed over."""
    pairs = [(record["step"], figure(record)) for record in log]
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
