"""How sure a mean paired difference is: bootstrap over seeds and cases, and Holm's correction."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

DRAWS = 10_000
LIMITS = (0.025, 0.975)
"""Between these quantiles lie 95 % of the draws."""
LEVEL = 0.05
"""A corrected p value below this is called significant."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean difference, and where it lies in 95 % of the draws."""

    mean: float
    low: float
    high: float
    p: float = 1.0
    """Two-sided, of the hypothesis that there is no difference; not corrected for anything."""


def paired_interval(differences: NDArray[np.float64]) -> Interval:
    """The mean of paired differences with its percentile interval and its p value.

    Args:
        differences: one row per seed, one column per case; each is of two runs with the same seed
            on the same case.
    """
    means = resampled_means(differences)
    low, high = np.quantile(means, LIMITS)
    return Interval(float(differences.mean()), float(low), float(high), two_sided_p(means))


def grouped_interval(values: Sequence[float], groups: Sequence[str]) -> Interval:
    """The mean of some cases with its percentile interval over groups of them, e.g. patients.

    Each sample draws groups with replacement, and takes all cases of every drawn group.

    Args:
        values: one for each case.
        groups: the group of each case; its name alone makes it another one.
    """
    index = np.unique(groups, return_inverse=True)[1]
    sums, sizes = np.bincount(index, weights=values), np.bincount(index)
    drawn = np.random.default_rng(0).integers(len(sums), size=(DRAWS, len(sums)))
    means = sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)
    low, high = np.quantile(means, LIMITS)
    return Interval(float(np.mean(values)), float(low), float(high))


def resampled_means(differences: NDArray[np.float64]) -> NDArray[np.float64]:
    """Means of `DRAWS` samples, always the same ones.

    Each sample draws seeds and cases with replacement and takes every drawn case of every drawn
    seed: a hard case is hard for all seeds, so they must not be drawn independently. With one seed
    there is nothing to draw but cases.
    """
    generator = np.random.default_rng(0)
    seeds, cases = differences.shape
    drawn_seeds = generator.integers(seeds, size=(DRAWS, seeds))
    drawn_cases = generator.integers(cases, size=(DRAWS, cases))
    of_seeds = differences[:, drawn_cases].mean(axis=2).T
    means: NDArray[np.float64] = np.take_along_axis(of_seeds, drawn_seeds, axis=1).mean(axis=1)
    return means


def two_sided_p(means: NDArray[np.float64]) -> float:
    """Twice the fraction of draws on the rarer side of 0, the observed one counted with them.

    So it is below 5 % where the 95 % interval leaves 0 out, and never 0.
    """
    fewer = min(int((means <= 0).sum()), int((means >= 0).sum()))
    return min(1.0, 2 * (fewer + 1) / (len(means) + 1))


def holm(values: Sequence[float]) -> list[float]:
    """P values corrected for their number by Holm's step-down method, in the same order.

    The smallest is multiplied by their number n, the next by n - 1 and so on; none may be smaller
    than one before it, or larger than 1.
    """
    corrected, largest = [0.0] * len(values), 0.0
    for rank, index in enumerate(sorted(range(len(values)), key=lambda each: values[each])):
        largest = max(largest, min(1.0, (len(values) - rank) * values[index]))
        corrected[index] = largest
    return corrected
