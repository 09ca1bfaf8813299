"""Markdown in small pieces: tables whose cells cannot break out, settings, means and spreads."""

import html
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tracoco.evaluation.bootstrap import Interval, paired_interval
from tracoco.studies.benchmark.results import Spread


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; the cells are Markdown."""
    lines = (head, ["---"] * len(head), *rows)
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def plain(text: str) -> str:
    """Text from a file as itself, also within a table."""
    escaped = html.escape(" ".join(text.split()), quote=False)
    for sign in r"\`*_|[]":
        escaped = escaped.replace(sign, f"\\{sign}")
    return escaped


def settings(changes: Mapping[str, Any]) -> str:
    """Settings as a command line takes them, each one as code."""
    words = (f"{key}={json.dumps(value)}".replace("`", "'") for key, value in changes.items())
    return ", ".join(f"`{word}`".replace("|", r"\|") for word in words)


def spread(value: Spread | None, digits: int = 1) -> str:
    """Mean and standard deviation, as far as they exist."""
    if value is None:
        return ""
    mean = f"{value.mean:.{digits}f}"
    return mean if value.sd is None else f"{mean} ± {value.sd:.{digits}f}"


def interval_text(interval: Interval) -> str:
    """The limits of an interval."""
    return f"[{interval.low:+.2f}, {interval.high:+.2f}]"


def difference_text(pairs: Sequence[tuple[Mapping[str, float], Mapping[str, float]]]) -> str:
    """By how much the first figures are above the second, over the cases that all of them have.

    Args:
        pairs: figures by case, of two runs with the same seed; a pair for each seed.
    """
    measured = [set(figures) for pair in pairs for figures in pair]
    cases = sorted(set.intersection(*measured)) if measured else []
    if not cases:
        return ""
    above = [[first[case] - second[case] for case in cases] for first, second in pairs]
    found = paired_interval(np.array(above))
    return f"{found.mean:+.2f} {interval_text(found)}"
