"""Which real cases teach and which are kept for the test, by names alone.

The order counts: a grid with `data.labelled: 10` keeps the labels of the first ten.
"""

from collections.abc import Iterable, Sequence

from tracoco.project.splits import Splits

HIPPOCAMPUS_TEST = 40


def last_kept(names: Sequence[str], count: int) -> Splits:
    """The last cases are for the test, and all before them are labelled."""
    return listed(names[:-count], names[-count:])


def listed(labelled: Iterable[str], test: Iterable[str]) -> Splits:
    """Two parts, in the order that they come in."""
    return Splits(labelled=tuple(labelled), unlabelled=(), validation=(), test=tuple(test))


def hippocampus(names: Iterable[str]) -> Splits:
    """By name; 40 of 220 are for the test."""
    return last_kept(sorted(names), HIPPOCAMPUS_TEST)


def tuning(reported: Splits, count: int) -> Splits:
    """The training cases alone, the last of them for the test: settings are chosen on these."""
    return last_kept(reported.labelled, count)


def la(training: Sequence[str]) -> Splits:
    """The training cases of the field's list; its own test cases are not needed."""
    return last_kept(training, 16)


def acdc(training: Sequence[str], validation: Sequence[str]) -> Splits:
    """The field's lists, two scans a patient; its validation patients are the test."""
    return listed(training, validation)


def brats19(training: Sequence[str], validation: Sequence[str]) -> Splits:
    """The field's lists, as far as 40 cases; its validation cases are the test."""
    return listed(training[:40], validation)


def btcv_pancreas(names: Iterable[str]) -> Splits:
    """By name; 4 of 20 are for the test."""
    return last_kept(sorted(names), 4)
