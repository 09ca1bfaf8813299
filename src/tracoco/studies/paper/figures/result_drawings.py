"""Drawings of scores: over the number of labels, over thresholds, beside the published ones."""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tracoco.studies.paper.figures.drawing_style import (
    OWN,
    PUBLISHED,
    dress,
    legend_below,
    new_figure,
    series_styles,
    tick_only,
)


@dataclass(frozen=True, slots=True)
class LabelPoint:
    """A series' scores with so many labelled scans. Dice in percent; None is unknown."""

    dataset: str
    labelled: int
    series: str
    dice: float
    dice_sd: float | None = None
    hd95: float | None = None
    hd95_sd: float | None = None


@dataclass(frozen=True, slots=True)
class ThresholdPoint:
    """Dice in percent at one threshold."""

    threshold: float
    dice: float
    dice_sd: float | None = None


@dataclass(frozen=True, slots=True)
class _Dot:
    x: float
    y: float | None
    spread: float | None


def by_label_count(points: Sequence[LabelPoint], distance_unit: str = "voxels") -> Figure:
    """Dice and HD95 over the number of labelled scans: a row for each data set."""
    datasets = list(dict.fromkeys(point.dataset for point in points))
    styles = series_styles(list(dict.fromkeys(point.series for point in points)))
    figure = new_figure(7.6, 0.5 + 2.7 * len(datasets))
    panels = figure.subplots(len(datasets), 2, squeeze=False)
    for dataset, (overlap, distance) in zip(datasets, panels, strict=True):
        mine = [point for point in points if point.dataset == dataset]
        for series, style in styles.items():
            chosen = sorted((p for p in mine if p.series == series), key=lambda p: p.labelled)
            dices = [_Dot(p.labelled, p.dice, p.dice_sd) for p in chosen]
            hd95s = [_Dot(p.labelled, p.hd95, p.hd95_sd) for p in chosen]
            _line(overlap, dices, style, series)
            _line(distance, hd95s, style, series)
        dress(overlap, dataset, "labelled scans", "Dice, %")
        dress(distance, "", "labelled scans", f"HD95, {distance_unit}")
        for axes in (overlap, distance):
            axes.set_xscale("log")
            tick_only(axes, [point.labelled for point in mine])
    legend_below(figure, panels[0, 0])
    return figure


def threshold_curves(
    gamma: Sequence[ThresholdPoint],
    beta: Sequence[ThresholdPoint],
    published_gamma: Sequence[ThresholdPoint] = (),
    published_beta: Sequence[ThresholdPoint] = (),
) -> Figure:
    """Dice over the positive and over the negative threshold of the CRC loss, Eq. (8)."""
    figure = new_figure(7.6, 3.2)
    panels = figure.subplots(1, 2)
    for axes, name, ours, published in (
        (panels[0], "positive threshold γ", gamma, published_gamma),  # noqa: RUF001 - the letter
        (panels[1], "negative threshold β", beta, published_beta),
    ):
        for points, style, series in (
            (ours, (OWN["tracoco"], "o"), "ours"),
            (published, (PUBLISHED, "D"), "published"),
        ):
            found = sorted(points, key=lambda point: point.threshold)
            if found:
                dots = [_Dot(p.threshold, p.dice, p.dice_sd) for p in found]
                _line(axes, dots, style, series, joined=series == "ours")
        dress(axes, "", name, "Dice, %")
    legend_below(figure, panels[0] if gamma else panels[1])
    return figure


def _line(
    axes: Axes, dots: Sequence[_Dot], style: tuple[str, str], name: str, *, joined: bool = True
) -> None:
    """A marker at each known value, a bar where its spread is known, a line where `joined`."""
    known = [(dot.x, dot.y, dot.spread or 0.0) for dot in dots if dot.y is not None]
    x, y, spreads = zip(*known, strict=True) if known else ((), (), ())
    colour, marker = style
    axes.errorbar(
        x,
        y,
        yerr=spreads if any(spreads) else None,
        color=colour,
        marker=marker,
        markersize=5,
        linewidth=1.6 if joined else 0,
        elinewidth=1,
        capsize=3,
        label=name,
    )
