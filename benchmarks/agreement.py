"""Ours and theirs do the same work: only then are their times worth comparing."""

from typing import Any

import numpy as np


class DisagreementError(Exception):
    """Two ways of doing something came to different results."""


def check_close(what: str, ours: Any, theirs: Any, tolerance: float) -> None:
    """Refuse numbers that differ by more than a fraction of the largest of them."""
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    if ours.shape != theirs.shape:
        raise DisagreementError(f"{what}: ours has the shape {ours.shape}, theirs {theirs.shape}")
    apart = float(np.abs(ours - theirs).max())
    allowed = tolerance * float(np.abs(theirs).max())
    if not apart <= allowed:
        raise DisagreementError(f"{what}: {apart:g} apart, at most {allowed:g} is allowed")
