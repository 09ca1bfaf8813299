"""What the paper printed: its tables, and the numbers that its text states about the figures.

Everything stands in the CSV files beside this module as it was printed, also where the paper
contradicts itself.
"""

import csv
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TypeVar

from tracoco.errors import UserError, did_you_mean
from tracoco.settings import checked

Line = TypeVar("Line")


@dataclass(frozen=True, slots=True)
class Published:
    """One result of one table; None where the table does not say."""

    table: str
    dataset: str
    labelled: int
    """Scans, but patients for ACDC."""
    row: str
    """As printed; in the overlap table how much two crops have in common."""
    method: str
    best: bool
    """Whether the checkpoint was the best on the test cases and not the last."""
    cct: bool
    """Whether small connected components were removed."""
    multiscale: bool
    """Whether the table marks it as learning at several scales; only that of Pancreas does."""
    dice: float
    jaccard: float | None
    asd: float
    hd95: float
    """Like the surface distance above in voxels; the overlaps are in percent."""
    parameters_m: float | None
    macs_g: float | None
    seconds: float | None
    """To predict a case, a slice for ACDC."""


@dataclass(frozen=True, slots=True)
class PublishedPoint:
    """One number that the text states about a figure; its unit is in the quantity's name.

    `late` means at nine tenths of the training, and gamma and beta are the thresholds of Eq. (8).
    """

    figure: str
    dataset: str
    labelled: int | None
    series: str
    quantity: str
    value: float


@dataclass(frozen=True, slots=True)
class PublishedGradient:
    """One cell of the table of gradients, by the probabilities of the first of two classes."""

    confidence: str
    pseudo_label: float
    prediction: float
    loss: str
    gradient: float


def published(table: str) -> list[Published]:
    """The results of one table, in the order of printing."""
    _check(table, published_tables(), "table")
    return [result for result in _results() if result.table == table]


def published_tables() -> list[str]:
    """The tables that there are, in the order of printing."""
    return list(dict.fromkeys(result.table for result in _results()))


def published_figure(figure: str) -> list[PublishedPoint]:
    """What the text states about one figure."""
    _check(figure, published_figures(), "figure")
    return [point for point in _points() if point.figure == figure]


def published_figures() -> list[str]:
    """The figures of which the text states numbers."""
    return list(dict.fromkeys(point.figure for point in _points()))


def published_gradients() -> list[PublishedGradient]:
    """The table of gradients, a line for each pair of probabilities and loss."""
    return list(_lines(PublishedGradient, "published_gradients.csv"))


@cache
def _results() -> tuple[Published, ...]:
    return _lines(Published, "published.csv")


@cache
def _points() -> tuple[PublishedPoint, ...]:
    return _lines(PublishedPoint, "published_figures.csv")


def _lines(kind: type[Line], name: str) -> tuple[Line, ...]:
    """The lines of a file; what is empty is None."""
    text = (resources.files("tracoco") / "studies" / "paper" / name).read_text(encoding="utf-8")
    lines = csv.DictReader(text.splitlines())
    known = ({key: value or None for key, value in line.items()} for line in lines)
    return tuple(checked(kind, values, name) for values in known)


def _check(name: str, known: list[str], what: str) -> None:
    if name not in known:
        raise UserError(f"the paper has no {what} '{name}'; {did_you_mean(name, known)}")
