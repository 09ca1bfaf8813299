"""Numbers, counts, times and tables as a reader sees them."""

import math
import re
from collections.abc import Iterable, Sequence
from html import escape

CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f]"  # what terminals obey, but for new lines and tabs
    r"|[\u200e\u200f\u202a-\u202e\u2066-\u2069]"  # what turns the direction of writing
    r"|[\ud800-\udfff]"  # bytes in the name of a file that are no text
)
UNDEFINED = "–"  # noqa: RUF001 - an en dash, as in a printed table


def printable(text: str) -> str:
    """The text with control characters written out: names of files may hold any."""
    return CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def number(value: float | None, decimals: int = 1) -> str:
    """A number with fixed decimals, or a dash where there is none."""
    if value is None or not math.isfinite(value):
        return UNDEFINED
    return f"{value:.{decimals}f}"


def signed(value: float | None, decimals: int = 1) -> str:
    """A number with its sign, so that too large and too small are told apart."""
    text = number(value, decimals)
    return f"+{text}" if value is not None and value > 0 and text != UNDEFINED else text


def spread(mean: float | None, deviation: float | None, decimals: int = 1) -> str:
    """`91.2 ± 3.4`, or the mean alone where there is no spread."""
    if deviation is None:
        return number(mean, decimals)
    return f"{number(mean, decimals)} ± {number(deviation, decimals)}"


def count(amount: int, noun: str) -> str:
    """`1 case`, `12 cases`."""
    return f"{amount:,} {noun}{'' if amount == 1 else 's'}"


def short(value: float) -> str:
    """A number of unknown size in as few characters as it takes: `0.0312`, `1.2e-05`."""
    return f"{value:.3g}"


def duration(seconds: float) -> str:
    """The two largest units: `45 s`, `12 min`, `3 h 20 min`, `2 d 5 h`."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = [f"{days} d"] * (days > 0) + [f"{hours} h"] * (hours > 0) + [f"{minutes} min"]
    return " ".join(parts[:2])


def listed(names: list[str], most: int = 5) -> str:
    """The first few names; the rest is counted."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def html_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table for a notebook; all text is escaped. Without columns it has no header.

    Cells are shown as `str` makes them; None is an empty cell.
    """

    def cells(row: Sequence[object], tag: str) -> str:
        texts = ("" if cell is None else escape(str(cell)) for cell in row)
        return "".join(f"<{tag} style='text-align:left'>{text}</{tag}>" for text in texts)

    header = f"<thead><tr>{cells(columns, 'th')}</tr></thead>" if columns else ""
    body = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in rows)
    return f"<table>{header}<tbody>{body}</tbody></table>"
