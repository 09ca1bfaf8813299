"""Charts of the pseudo-labels' health: what the unlabelled crops teach, and whether to trust it."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from tracoco.methods import find_row
from tracoco.methods.health import PseudoLabelHealth
from tracoco.reporting.charts import Chart, Line, Series, lines, pick
from tracoco.reporting.run_record import RunRecord
from tracoco.runs.log import StepRecord, UnlabelledRecord
from tracoco.text import number

Measure = Callable[[PseudoLabelHealth], float | None]
ABOUT_GATES = (
    "likely: voxels whose pseudo-label is sure enough to teach its class; "
    "unlikely: classes that are all but ruled out, and so unlearnt"
)
ABOUT = {
    "entropy": "of predictions for unlabelled crops, as a fraction of the largest that it can be",
    "certain": "voxels that the teacher is sure of, which alone are compared with it",
    "ambiguous": "voxels that the student is unsure of, which alone are compared with the teacher",
    "trust": "mean weight of the teacher's predictions: the larger, the surer it is",
    "largest_component": "foreground that lies in the largest part of its class, which alone stays",
    "patches": "patches that hold enough of their class to be compared",
}
"""What figures mean that one method alone has; each is a fraction."""


def health_charts(run: RunRecord) -> list[Chart]:
    """Class fractions, gates, each other figure, and the shift of crops that are compared."""
    further = dict.fromkeys(name for record in run.log for name in record.health.further)
    found = [
        _fraction_chart(run),
        _weight_chart(run.log),
        _gate_chart(run.log),
        _agreement_chart(run.log),
        _distance_chart(run.log),
        *(_further_chart(run.log, name) for name in further),
    ]
    charts = [chart for chart in found if chart]
    row = find_row(run.config.method.name)
    if charts and row and row.pairs:
        charts.append(_shift_chart(run.log))
    return [replace(chart, spans=run.collapsed_spans()) for chart in charts]


def _fraction_chart(run: RunRecord) -> Chart | None:
    """Fraction of each foreground class, with the fraction that the labelled scans let expect."""
    foreground = _percent(run.log, _foreground)
    if not len(foreground):
        return None
    names = run.plan.class_names
    parts = {
        names[index]: _percent(run.log, _class_fraction(index)) for index in range(1, len(names))
    }
    if len(parts) > 1:
        parts = {"all foreground": foreground} | parts
    drawn = [*_drawn(parts), *_expected_line(run.facts.labelled_share, foreground)]
    latest = f"{number(foreground.smoothed.values[-1])} %"
    about = "of the voxels; dashed, the foreground's fraction of the labelled scans"
    return Chart("foreground in the pseudo-labels", drawn, latest, about)


def _weight_chart(log: Sequence[StepRecord]) -> Chart | None:
    """How much the adaptive weight lets unlabelled crops count, and what it goes by."""
    weight = _adaptive(log, lambda entry: entry.weight)
    if not len(weight):
        return None
    known = _adaptive(log, lambda entry: entry.known)
    agreement = _adaptive(log, lambda entry: entry.agreement)
    drawn = _drawn(
        {
            "weight": weight,
            "Dice on labelled crops": known,
            "Dice of the two predictions for unlabelled crops": agreement,
        }
    )
    about = (
        "in percent of the method's own weight: 0 until the labelled crops are known and labels "
        "alone teach little more, less where two predictions for unlabelled crops disagree, and "
        "less while a structure fades from the pseudo-labels or the Dice on labelled crops falls"
    )
    return Chart("weight of unlabelled crops", drawn, f"{number(weight.values[-1])} %", about)


def _gate_chart(log: Sequence[StepRecord]) -> Chart | None:
    """How much of the pseudo-labels is let through to teach."""
    likely = _percent(log, lambda health: health.likely)
    drawn = _drawn({"likely": likely, "unlikely": _percent(log, lambda health: health.unlikely)})
    return Chart("passing the gates, %", drawn, "", ABOUT_GATES) if drawn else None


def _agreement_chart(log: Sequence[StepRecord]) -> Chart | None:
    series = _percent(log, lambda health: health.agreement)
    return _chart("agreement", series, "%", "voxels that both networks give the same class")


def _distance_chart(log: Sequence[StepRecord]) -> Chart | None:
    series = pick(log, lambda record: record.health.distance)
    about = "between the foreground probabilities of both networks, summed over a crop"
    return _chart("distance", series, "voxels", about)


def _further_chart(log: Sequence[StepRecord], name: str) -> Chart | None:
    series = _percent(log, lambda health: health.further.get(name))
    return _chart(name, series, "%", ABOUT.get(name, ""))


def _chart(name: str, series: Series, unit: str, about: str) -> Chart | None:
    if not len(series):
        return None
    latest = f"{number(series.smoothed.values[-1])} {unit}"
    return Chart(name, lines(series, name), latest, about, from_zero=False)


def _shift_chart(log: Sequence[StepRecord]) -> Chart:
    """How far apart the two crops of a pair are, for methods that compare them."""
    shift = pick(log, lambda record: record.shift) * 100
    return Chart(
        "mean shift",
        lines(shift, "mean shift", colour=4),
        f"{number(shift.values.mean())} %",
        "of the second crop of a pair against the first, in percent of the crop's size; "
        "the figure is the mean of the run. At 0 there is no room to translate",
    )


def _drawn(parts: dict[str, Series]) -> list[Line]:
    """A line each; without the values behind their mean where those would hide each other."""
    return [
        line
        for colour, (name, series) in enumerate(parts.items(), start=1)
        if len(series)
        for line in lines(series, name, colour)
        if line.style != "raw" or len(parts) == 1
    ]


def _expected_line(expected: float | None, over: Series) -> list[Line]:
    if expected is None:
        return []
    ends = np.array([over.steps[0], over.steps[-1]])
    return [Line("labelled scans", ends, np.full(2, 100 * expected), "dashed", colour=0)]


def _adaptive(
    log: Sequence[StepRecord], measure: Callable[[UnlabelledRecord], float | None]
) -> Series:
    """In percent, at the steps that have an adaptive weight."""
    return pick(log, lambda step: measure(step.unlabelled) if step.unlabelled else None) * 100


def _percent(log: Sequence[StepRecord], measure: Measure) -> Series:
    return pick(log, lambda record: measure(record.health)) * 100


def _class_fraction(index: int) -> Measure:
    return lambda health: health.class_fractions[index] if health.class_fractions else None


def _foreground(health: PseudoLabelHealth) -> float | None:
    return 1 - health.class_fractions[0] if health.class_fractions else None
