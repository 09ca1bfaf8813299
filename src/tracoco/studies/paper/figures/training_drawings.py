"""Drawings of trainings: how sure networks are, how long a step takes, how far two are apart."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from tracoco.studies.paper.figures.drawing_style import (
    INK,
    LINES,
    MUTED,
    OWN,
    dress,
    legend_below,
    new_figure,
    series_styles,
)

TimeRow = tuple[str, float, float | None]
"""A method, its seconds a step, and their spread if it is known."""


@dataclass(frozen=True, slots=True, eq=False)
class DivergenceSeries:
    """How far two networks are apart at several times of a training."""

    fraction_of_training: ArrayLike
    overlap_ratio: ArrayLike
    """Fraction of the voxels to which both give the same label."""
    distance: ArrayLike
    """Mean over the volumes of the summed absolute difference of the two probabilities."""


def confidence_histograms(
    panels: Mapping[str, tuple[ArrayLike, ArrayLike]], *, log: bool = True
) -> Figure:
    """How sure each network is of the foreground.

    Args:
        panels: title of a panel, usually a loss, to the voxels that are truly background and those
            that are truly foreground, counted in equal bins of their foreground probability.
        log: a logarithmic axis, on which the few voxels between 0 and 1 can be seen.
    """
    figure = new_figure(3.8 * len(panels), 3.1)
    found = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    kinds = (("true background", OWN["supervised"]), ("true foreground", LINES[0]))
    for axes, (title, values) in zip(found, panels.items(), strict=True):
        for counted, (name, colour) in zip(values, kinds, strict=True):
            counts = np.asarray(counted, dtype=float)
            edges = np.linspace(0, 1, len(counts) + 1)
            fraction = 100 * counts / max(counts.sum(), 1)
            axes.stairs(fraction, edges, fill=True, color=colour, alpha=0.25)
            # The outline tells the two apart where they lie over each other.
            axes.stairs(fraction, edges, color=colour, linewidth=1.6, label=name)
        if log:
            axes.set_yscale("log")
        dress(axes, title, "predicted probability of the foreground", "")
        axes.set_xlim(0, 1)
    found[0].set_ylabel("voxels of each kind, %", fontsize=9, color=MUTED)
    legend_below(figure, found[0])
    return figure


def draw_training_time(rows: Sequence[TimeRow], reference: str = "supervised") -> Figure:
    """Seconds a step, the quickest on top; beside each bar also in multiples of `reference`."""
    ordered = sorted(rows, key=lambda row: row[1])
    base = next((seconds for method, seconds, _ in rows if method == reference), None)
    figure = new_figure(6.4, 0.8 + 0.34 * len(ordered))
    axes = figure.subplots()
    for place, (method, seconds, spread) in enumerate(ordered):
        colour = OWN.get(method.lower(), "#9fb4c4")
        axes.barh(place, seconds, xerr=spread, color=colour, height=0.66, capsize=2.5, ecolor=INK)
        times = f"   {seconds / base:.2f} x" if base else ""
        text = f"{seconds:#.3g} s{times}"
        place_across = (seconds + (spread or 0.0), place)
        axes.annotate(
            text,
            place_across,
            (5, 0),
            textcoords="offset points",
            va="center",
            fontsize=8.5,
            color=INK,
        )
    dress(axes, "", "seconds a step" + (f"; x times {reference}" if base else ""), "")
    axes.set_yticks(range(len(ordered)), [method for method, *_ in ordered], color=INK)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_xlim(0, 1.28 * max(seconds + (spread or 0.0) for _, seconds, spread in ordered))
    return figure


def draw_divergence(series: Mapping[str, DivergenceSeries]) -> Figure:
    """How alike the predictions of two networks are while they are trained."""
    figure = new_figure(7.6, 3.2)
    alike, apart = figure.subplots(1, 2)
    for (name, (colour, marker)), each in zip(
        series_styles(list(series)).items(), series.values(), strict=True
    ):
        percent = 100 * np.asarray(each.fraction_of_training, dtype=float)
        look = {
            "color": colour,
            "marker": marker,
            "markersize": 4.5,
            "linewidth": 1.6,
            "label": name,
        }
        alike.plot(percent, 100 * np.asarray(each.overlap_ratio, dtype=float), **look)
        apart.plot(percent, np.asarray(each.distance, dtype=float), **look)
    dress(alike, "Overlap ratio", "steps done, %", "same label, % of voxels")
    dress(apart, "Voxel distance", "steps done, %", "L1 distance a crop, voxels")
    legend_below(figure, alike)
    return figure
