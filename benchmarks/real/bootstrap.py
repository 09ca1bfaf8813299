"""How sure a difference between two rows is: a paired bootstrap over seeds and cases."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

DRAWS = 10_000
LIMITS = (0.025, 0.975)
"""Between these quantiles lie 95 % of the draws."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean difference, and where it lies in 95 % of the draws."""

    mean: float
    low: float
    high: float

    @property
    def separated(self) -> bool:
        """Whether the interval leaves 0 out."""
        return self.low > 0 or self.high < 0


def paired_interval(differences: NDArray[np.float64]) -> Interval:
    """The mean of paired differences with its percentile interval.

    Args:
        differences: one row a seed, one column a case; each is of two runs with the same seed on
            the same case.
    """
    low, high = np.quantile(resampled_means(differences), LIMITS)
    return Interval(float(differences.mean()), float(low), float(high))


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
