"""Intervals and p values of paired differences, against what can be worked out by hand."""

from collections import Counter
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from tracoco.evaluation.bootstrap import (
    DRAWS,
    Interval,
    holm,
    paired_interval,
    resampled_means,
    two_sided_p,
)


def enumerated(differences: list[list[int]]) -> dict[float, float]:
    """Probability of every mean, by going through all draws."""
    seeds, cases = len(differences), len(differences[0])
    means = Counter[Fraction]()
    for drawn in product(range(seeds), repeat=seeds):
        for chosen in product(range(cases), repeat=cases):
            total = sum(differences[seed][case] for seed in drawn for case in chosen)
            means[Fraction(total, seeds * cases)] += 1
    every = sum(means.values())
    return {float(mean): count / every for mean, count in means.items()}


def test_a_constant_difference_has_an_interval_of_no_width() -> None:
    # No draw lies on the other side of 0, so only the observed one counts there.
    assert paired_interval(np.full((3, 5), 2.0)) == Interval(2.0, 2.0, 2.0, 2 / (DRAWS + 1))


def test_equal_rows_have_a_p_value_of_one() -> None:
    assert paired_interval(np.zeros((3, 5))).p == 1.0


def test_the_p_value_is_twice_the_rarer_side_of_zero() -> None:
    # One of nine draws is not above 0; with the observed one 2 of 10, and twice that.
    assert two_sided_p(np.array([-1.0, 1, 2, 3, 4, 5, 6, 7, 8])) == pytest.approx(0.4)
    assert two_sided_p(np.array([1.0, -1, -2, -3, -4, -5, -6, -7, -8])) == pytest.approx(0.4)
    # Three cases, one of them below 0: the mean of a draw is above 0 only if that one is not drawn,
    # which has a probability of (2/3)^3 = 8/27 and is the rarer side.
    found = paired_interval(np.array([[-3.0, 1.0, 1.0]]))
    assert found.p == pytest.approx(2 * 8 / 27, abs=0.02)


def test_holm_multiplies_the_smallest_by_the_number_and_never_falls() -> None:
    # Sorted 0.01, 0.02, 0.03, 0.04 by 4, 3, 2, 1: 0.04, 0.06, 0.06, 0.04; the last may not fall.
    assert holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([0.5, 0.6]) == [1.0, 1.0]
    assert holm([0.001, 0.8]) == pytest.approx([0.002, 0.8])
    assert holm([0.03]) == [0.03]
    assert holm([]) == []


def test_all_drawn_cases_of_all_drawn_seeds_are_taken() -> None:
    # 16 for the second case of the second seed alone: 16 x share of the seed x share of the case,
    # where each share is 0, 1/2 or 1 with probability 1/4, 1/2, 1/4.
    wanted = {0.0: 7 / 16, 4.0: 4 / 16, 8.0: 4 / 16, 16.0: 1 / 16}
    assert enumerated([[0, 0], [0, 16]]) == wanted
    means = resampled_means(np.array([[0.0, 0.0], [0.0, 16.0]]))
    found = {value: count / DRAWS for value, count in Counter(means.tolist()).items()}
    # Four standard deviations of a share of 10,000 draws are at most 0.02.
    assert found == pytest.approx(wanted, abs=0.02)


def test_limits_are_the_quantiles_of_all_possible_draws() -> None:
    differences = [[0, 3, 9], [-6, 12, 0]]
    exact = sorted(enumerated(differences).items())
    below = np.cumsum([probability for _, probability in exact])
    # Neither limit lies where a little chance would move it to the next value.
    low, high = (exact[int(np.searchsorted(below, limit))][0] for limit in (0.025, 0.975))
    found = paired_interval(np.array(differences, dtype=float))
    assert found.mean == pytest.approx(3.0)
    assert (found.low, found.high) == pytest.approx((low, high))


def test_one_seed_leaves_only_cases_to_draw() -> None:
    # Two cases: both limits are reached, since each is drawn twice in a quarter of the draws.
    two = paired_interval(np.array([[0.0, 2.0]]))
    assert (two.mean, two.low, two.high) == (1.0, 0.0, 2.0)
    one = paired_interval(np.array([[1.0, 2.0, 4.0, 9.0]]))
    several = paired_interval(np.array([[1.0, 2.0, 4.0, 9.0], [7.0, 8.0, 10.0, 15.0]]))
    assert several.high - several.low > one.high - one.low, "seeds that differ make it wider"


def test_exchanging_the_rows_turns_the_interval_round() -> None:
    differences = np.random.default_rng(1).normal(0.5, 2.0, (3, 12))
    there, back = paired_interval(differences), paired_interval(-differences)
    turned = (-back.mean, -back.high, -back.low)
    assert (there.mean, there.low, there.high) == pytest.approx(turned)


def test_the_same_differences_have_the_same_interval_each_time() -> None:
    differences = np.random.default_rng(2).normal(0.0, 1.0, (2, 7))
    assert paired_interval(differences) == paired_interval(differences)
