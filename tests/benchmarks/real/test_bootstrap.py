"""The intervals of docs/benchmarks.md, against distributions that can be written down."""

from collections import Counter
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from benchmarks.real.bootstrap import DRAWS, Interval, paired_interval, resampled_means


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
    assert paired_interval(np.full((3, 5), 2.0)) == Interval(2.0, 2.0, 2.0)


def test_equal_rows_are_not_separated() -> None:
    assert not paired_interval(np.zeros((3, 5))).separated
    assert Interval(1.0, 0.1, 2.0).separated
    assert Interval(-1.0, -2.0, -0.1).separated
    assert not Interval(1.0, 0.0, 2.0).separated


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
    assert paired_interval(np.array([[0.0, 2.0]])) == Interval(1.0, 0.0, 2.0)
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
