"""Picking, smoothing and thinning of figures."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import step_record

from tracoco.reporting.charts import MOST_POINTS, Series, lines, pick


def series(values: list[float]) -> Series:
    return Series(np.arange(len(values), dtype=float), np.array(values, dtype=float))


def test_records_without_the_figure_or_with_nan_are_passed_over() -> None:
    found = {3: 1.0, 4: None, 5: math.nan, 6: 2.0}
    log = [step_record(step, validation_dice=dice) for step, dice in found.items()]
    picked = pick(log, lambda record: record.validation_dice)
    assert picked.steps.tolist() == [3, 6]
    assert picked.values.tolist() == [1, 2]


def test_an_empty_log_has_no_points() -> None:
    assert len(pick([], lambda record: record.loss)) == 0


def test_the_running_mean_is_centred_and_narrower_at_the_ends() -> None:
    # 75 values: a 25th of them is 3, so one neighbour on each side. A single 3 spreads to 1, 1, 1,
    # and at the first place, where there are two values, to 3 / 2.
    values = [0.0] * 75
    values[40] = 3.0
    assert series(values).smoothed.values[39:42].tolist() == pytest.approx([1, 1, 1])
    assert series([3.0] + [0.0] * 74).smoothed.values[:3].tolist() == pytest.approx([1.5, 1, 0])


@given(st.integers(min_value=1, max_value=20_000), st.integers(min_value=0))
def test_thinning_keeps_ends_and_peaks(length: int, place: int) -> None:
    values = np.zeros(length)
    values[place % length] = 9.0
    thin = Series(np.arange(length, dtype=float), values).thinned
    assert len(thin) <= MOST_POINTS
    assert (thin.steps[0], thin.steps[-1]) == (0, length - 1)
    assert (np.diff(thin.steps) > 0).all()
    assert thin.values.max() == 9.0


def test_a_short_series_is_not_smoothed() -> None:
    assert [line.style for line in lines(series([1.0] * 19), "loss")] == ["line"]
    assert [line.style for line in lines(series([1.0] * 20), "loss")] == ["raw", "line"]
