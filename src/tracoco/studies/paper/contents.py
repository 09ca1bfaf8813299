"""What the paper holds, by name, and how each table and figure is made."""

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tracoco.errors import UserError, did_you_mean
from tracoco.studies.paper.table_rows import TABLES

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tracoco.studies.paper.request import PaperRequest

ANALYSES = {
    "complexity": (
        "tracoco.studies.paper.inference_cost:show_complexity",
        "Parameters, multiply-accumulates and seconds a case of each network",
    ),
    "gradient-analysis": (
        "tracoco.studies.paper.gradients:show_gradients",
        "How hard MSE, CE and CRC pull, for sure and unsure pseudo-labels",
    ),
}
"""Tables that need no training: the function that makes them, and their title."""

FIGURES = {
    "supervised-by-labels": (
        "tracoco.studies.paper.figures.labels:label_counts",
        "TraCoCo against supervised learning, by number of labels",
    ),
    "confidence": (
        "tracoco.studies.paper.figures.confidence:confidence",
        "Confidence in background and foreground, learnt with MSE and with CRC",
    ),
    "thresholds": (
        "tracoco.studies.paper.figures.thresholds:thresholds",
        "Dice by the thresholds gamma and beta of CRC",
    ),
    "training-time": (
        "tracoco.studies.paper.figures.time:training_time",
        "Seconds a step, by method",
    ),
    "divergence": (
        "tracoco.studies.paper.figures.divergence:divergence",
        "How far two networks drift apart while they train",
    ),
    "qualitative": (
        "tracoco.studies.paper.figures.qualitative:qualitative",
        "One scan, segmented by several methods, as slice and surface",
    ),
    "context": (
        "tracoco.studies.paper.figures.context:context",
        "One scan, two translated crops, and where the predictions differ in their overlap",
    ),
}
"""What draws each figure, and its title."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A table or figure for a person and for a program."""

    table: "RenderableType"
    values: dict[str, Any]
    lines: tuple[str, ...] = ()
    """What is said below the table: where a picture is, what to do next."""


@dataclass(frozen=True, slots=True)
class PaperEntry:
    """A table or figure of the paper."""

    name: str
    kind: Literal["table", "figure"]
    title: str


def list_paper() -> list[PaperEntry]:
    """List the paper's tables and figures, by the names that `paper` takes."""
    return [
        *(PaperEntry(name, "table", title) for name, title in TABLES.items()),
        *(PaperEntry(name, "table", title) for name, (_, title) in ANALYSES.items()),
        *(PaperEntry(name, "figure", title) for name, (_, title) in FIGURES.items()),
    ]


def paper_content(
    name: str, request: "PaperRequest", *, rows: tuple[str, ...] = (), out: Path | None = None
) -> Shown:
    """Run what is missing and show it.

    Args:
        name: a table or figure.
        request: on which projects, at which size.
        rows: of a table, those with these names alone.
        out: a figure's file; in the project's folder if not given.
    """
    shown: Shown
    _check_options(name, request, rows, out)
    if name in TABLES:
        shown = _found("tracoco.studies.paper.result_tables:show_results")(name, request, rows)
    elif name in ANALYSES:
        shown = _found(ANALYSES[name][0])(request)
    elif name in FIGURES:
        shown = _figure(name, request, out)
    else:
        known = [entry.name for entry in list_paper()]
        raise UserError(f"the paper has no table or figure '{name}'; {did_you_mean(name, known)}")
    return shown


def _figure(name: str, request: "PaperRequest", out: Path | None) -> Shown:
    target, title = FIGURES[name]
    shown: Shown
    if request.projects:
        drawing = _found("tracoco.studies.paper.figure:show_figure")
        shown = drawing(name, title, _found(target), request, out)
    else:
        shown = _found("tracoco.studies.paper.figure:show_published_figure")(name, title)
    return shown


def _check_options(
    name: str, request: "PaperRequest", rows: tuple[str, ...], out: Path | None
) -> None:
    """Refuse what would be ignored."""
    if out and name not in FIGURES:
        raise UserError(f"--out is for figures, and '{name}' is a table; --json prints its values")
    if out and not request.projects:
        raise UserError(
            f"--out is for a figure that is drawn from a project; tracoco paper {name} "
            "--project [DATASET=]FOLDER"
        )
    if rows and name not in TABLES:
        raise UserError(f"--row chooses rows of a table of results, which '{name}' is not")
    if request.projects and name in ANALYSES:
        raise UserError(f"'{name}' needs no project; leave out --project")


def _found(target: str) -> Any:
    """The function, imported only now: torch takes seconds."""
    module, _, attribute = target.partition(":")
    return getattr(import_module(module), attribute)
