"""Numbers, counts and times as a reader sees them."""

import math

UNDEFINED = "–"  # noqa: RUF001 - an en dash, as in a printed table


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
