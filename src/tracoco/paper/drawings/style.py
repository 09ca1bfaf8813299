"""The look that all drawings share: the report's colours, thin axes, nothing that is not read."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator, ScalarFormatter

INK, MUTED, EDGE, GRID = "#1c2127", "#5d6773", "#c9cfd5", "#e8ebee"
PUBLISHED = "#8b949e"
"""Grey: what a paper states, beside what was measured here."""
LINES = ("#0072b2", "#d55e00", "#00825f", "#a3458a", "#8a6a00", "#4b4fb5")
OWN = {"supervised": "#59626d", "tracoco": "#0072b2"}
"""These two have the same colour in every drawing, whatever else is in it."""
MARKERS = "osD^vP"
DOTS_PER_INCH = 150


def new_figure(width: float, height: float) -> Figure:
    """A white sheet; sizes in inches."""
    return Figure((width, height), dpi=DOTS_PER_INCH, facecolor="white", layout="constrained")


def dress(axes: Axes, title: str, across: str, up: str) -> None:
    """Titles, units, and a light grid behind the data."""
    axes.set_title(title, fontsize=10, color=INK, loc="left", fontweight="bold")
    axes.set_xlabel(across, fontsize=9, color=MUTED)
    axes.set_ylabel(up, fontsize=9, color=MUTED)
    axes.tick_params(which="both", labelsize=8.5, color=EDGE, labelcolor=MUTED)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(EDGE)
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)


def series_styles(names: Sequence[str]) -> Mapping[str, tuple[str, str]]:
    """Colour and marker of each series, by its name where it is one of ours, else in order."""
    spare = iter(LINES[1:] * (len(names) // (len(LINES) - 1) + 1))
    colours = [OWN.get(name.lower()) or next(spare) for name in names]
    return {
        name: (colour, MARKERS[index % len(MARKERS)])
        for index, (name, colour) in enumerate(zip(names, colours, strict=True))
    }


def legend_below(figure: Figure, axes: Axes) -> None:
    """One legend for all panels, under them."""
    handles, names = axes.get_legend_handles_labels()
    figure.legend(
        handles,
        names,
        loc="outside lower center",
        ncols=min(len(names), 4),
        frameon=False,
        fontsize=9,
        labelcolor=INK,
    )


def tick_only(axes: Axes, values: Sequence[float]) -> None:
    """Ticks across at these values and nowhere else, written out in full."""
    axes.xaxis.set_major_locator(FixedLocator(sorted(set(values))))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(ScalarFormatter())
