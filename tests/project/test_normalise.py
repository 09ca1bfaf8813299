from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tracoco.geometry import Box
from tracoco.project.plan import Plan
from tracoco.project.preprocess import normalise, to_network_grid


def zscores(over: str = "all", *, full: bool = True, **values: Any) -> Plan:
    """A plan with one channel; `full` clips nothing, so that means can be taken by hand."""
    return Plan.model_validate(
        {
            "dimensions": 3,
            "channels": 1,
            "label_values": (0, 1),
            "class_names": ("background", "one"),
            "slice_axis": None,
            "spacing_mm": (None, None, None),
            "crop": (8, 8, 8),
            "normalisation": "zscore",
            "statistics_over": over,
            "low_percentile": 0 if full else 0.5,
            "high_percentile": 100 if full else 99.5,
            **values,
        }
    )


def line(*values: float) -> NDArray[np.float32]:
    return np.array(values, dtype=np.float32)


def test_without_background_all_voxels_count() -> None:
    # Mean 4, variance (4 + 0 + 4) / 3.
    found = normalise(line(2, 4, 6), zscores())
    assert found.dtype == np.float32
    assert found.tolist() == pytest.approx([-1.224745, 0, 1.224745])


@pytest.mark.parametrize("background", [4, 4000])
def test_a_constant_background_does_not_count_however_large_it_is(background: int) -> None:
    scan = line(*[-1] * background, 10, 20, 30)
    found = normalise(scan, zscores("above_background", full=False))
    # Of 10, 20 and 30 the percentiles are 10.1 and 29.9: mean 20, sd 9.9 * sqrt(2 / 3) = 8.08332.
    assert found[-3:].tolist() == pytest.approx([-1.237115, 0, 1.237115])
    assert np.unique(found[:-3]) == pytest.approx([-21 / 8.08332])


@pytest.mark.parametrize("air", [20, 200])
def test_noisy_air_does_not_count_however_much_there_is(air: int) -> None:
    scan = np.concatenate([np.repeat(line(1, 2, 3), air), np.repeat(line(90, 110), 20)])
    found = normalise(scan, zscores("above_air"))
    # Above 1 + 0.1 * (110 - 1) = 11.9 there are 90 and 110: mean 100, sd 10. Air would be -9.9.
    assert np.unique(found) == pytest.approx([-5, -1, 1])
    assert (found[: 3 * air] == -5).all()


def test_outliers_move_neither_mean_nor_deviation_and_are_clipped() -> None:
    scan = np.concatenate([line(-1e6, 1e6), np.repeat(line(10, 20), 499)])
    found = normalise(scan, zscores(full=False))
    # 0.5 % of 1000 voxels are five: the percentiles are 10 and 20, the mean 15, the deviation 5.
    assert found[:2].tolist() == [-5, 5]
    assert np.unique(found[2:]) == pytest.approx([-1, 1])


def test_a_window_has_the_mean_and_deviation_of_the_plan_in_every_scan() -> None:
    plan = zscores(window=(-100, 300), window_mean_sd=(80, 40))
    scan = line(-1024, -100, 0, 80, 300, 3000)
    assert normalise(scan, plan).tolist() == [-4.5, -4.5, -2, 0, 5.5, 5.5]
    assert normalise(scan[2:4], plan).tolist() == [-2, 0]
    assert scan[0] == -1024  # it is still the caller's


def test_a_window_by_hand_becomes_minus_two_to_two() -> None:
    plan = zscores(window=(-100, 300))
    assert normalise(line(-1024, 0, 100, 300), plan).tolist() == [-2, -1, 0, 2]


@pytest.mark.parametrize("over", ["above_background", "above_air", "all"])
def test_scans_that_are_constant_become_zeros(over: str) -> None:
    for full in (False, True):
        assert not normalise(np.full(9, 0.1, dtype=np.float32), zscores(over, full=full)).any()
    if over != "all":
        assert not normalise(line(0, 0, 0, 7, 7), zscores(over)).any()  # one value in the body


@given(
    st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=30),
    st.sampled_from(["above_background", "above_air", "all"]),
    st.sampled_from([0.0, 0.5, 20.0]),
)
def test_every_scan_has_numbers_within_the_limits(
    values: list[float], over: str, clipped: float
) -> None:
    plan = zscores(over, low_percentile=clipped, high_percentile=100 - clipped)
    found = normalise(line(*values), plan)
    low, high = plan.intensity_limits
    assert ((low <= found) & (found <= high)).all()  # NaN would be neither


def test_units_and_offsets_of_a_scan_do_not_matter() -> None:
    random = np.random.default_rng(0)
    scan = np.concatenate([np.zeros(500), random.uniform(10, 90, 500)]).astype(np.float32)
    for over in ("above_background", "above_air", "all"):
        plain, other = (normalise(each, zscores(over)) for each in (scan, 3 * scan + 100))
        np.testing.assert_allclose(plain, other, atol=1e-5)


def test_each_channel_has_its_own_statistics() -> None:
    plan = zscores(
        channels=3,
        statistics_over=["above_background", "all", "all"],
        window=[None, None, [0, 8]],
        window_mean_sd=[None, None, [4, 2]],
    )
    scan = line(0, 0, 4, 6).reshape(1, 2, 2, 1).repeat(3, axis=0)
    found = to_network_grid(scan, (1, 1, 1), plan)
    # Of 4 and 6 the mean is 5 and the deviation 1; of all four 2.5 and sqrt(6.75) = 2.598076.
    assert found[0].ravel().tolist() == [-5, -5, -1, 1]
    assert found[1].ravel().tolist() == pytest.approx([-0.962250, -0.962250, 0.577350, 1.347151])
    assert found[2].ravel().tolist() == [-2, -2, 0, 1]


def test_a_part_has_the_values_that_it_has_in_the_whole_scan() -> None:
    scan = np.random.default_rng(0).normal(100, 20, (6, 6, 6)).astype(np.float32)
    box = Box((1, 2, 3), (4, 3, 2))
    for plan in (zscores("above_air"), zscores(window=(80, 120))):
        found = normalise(scan, plan, box=box)
        assert np.array_equal(found, normalise(scan, plan)[box.slices])
        found += 1
        assert not np.array_equal(found, scan[box.slices])


def test_a_plan_that_does_not_rescale_keeps_the_values_of_the_file() -> None:
    assert normalise(line(3, 5), zscores(rescale=False)).tolist() == [3, 5]
