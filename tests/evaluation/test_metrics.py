"""Each metric by hand, against the table of medpy and MONAI, and against live medpy if there."""

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracoco.evaluation import metrics
from tracoco.evaluation.metrics import Mask, SurfaceDistances, surface_distances
from tracoco.files import read_json

ORACLE = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "make_metric_oracle.py"))
TABLE = read_json(Path(__file__).with_name("oracle.json"))["pairs"]
SEEDS = st.integers(0, 2**32 - 1)


def our_values(pair: Any) -> dict[str, float | None]:
    prediction, truth = ORACLE["draw"](pair)
    mm = surface_distances(prediction, truth, pair.spacing)
    voxel = surface_distances(prediction, truth, (1.0,) * truth.ndim)
    return {
        "dice": metrics.dice(prediction, truth),
        "jaccard": metrics.jaccard(prediction, truth),
        "volume_error": metrics.volume_error(prediction, truth),
        "asd mm": metrics.asd(mm),
        "assd mm": metrics.assd(mm),
        "hd95 mm": metrics.hd95(mm),
        "nsd mm": metrics.nsd(mm, ORACLE["TOLERANCE"]),
        "asd voxel": metrics.asd(voxel),
        "assd voxel": metrics.assd(voxel),
        "hd95 voxel": metrics.hd95(voxel),
    }


@pytest.mark.parametrize("pair", ORACLE["PAIRS"], ids=lambda pair: pair.name)
def test_values_are_those_of_medpy_and_monai(pair: Any) -> None:
    row, ours = TABLE[pair.name], our_values(pair)
    assert [int(mask.sum()) for mask in ORACLE["draw"](pair)] == row["voxels"], "other masks"
    for library in ("medpy", "monai"):
        theirs = row[library]
        assert {key: ours[key] for key in theirs} == pytest.approx(theirs, rel=1e-5, abs=1e-9)


@pytest.mark.parametrize("pair", ORACLE["PAIRS"], ids=lambda pair: pair.name)
def test_values_are_those_of_the_installed_medpy(pair: Any) -> None:
    pytest.importorskip("medpy.metric.binary")
    theirs, ours = ORACLE["medpy_values"](pair), our_values(pair)
    assert {key: ours[key] for key in theirs} == pytest.approx(theirs, rel=1e-5, abs=1e-9)


def row_of(*filled: int) -> Mask:
    mask = np.zeros((1, 8), dtype=bool)
    mask[0, list(filled)] = True
    return mask


def test_dice_and_jaccard_by_hand() -> None:
    # 3 and 2 pixels, 1 shared, 4 in either.
    assert metrics.dice(row_of(0, 1, 2), row_of(2, 3)) == pytest.approx(2 / 5)
    assert metrics.jaccard(row_of(0, 1, 2), row_of(2, 3)) == pytest.approx(1 / 4)


def test_volume_error_is_positive_where_too_much_is_predicted() -> None:
    assert metrics.volume_error(row_of(0, 1, 2), row_of(4, 5)) == pytest.approx(0.5)
    assert metrics.volume_error(row_of(0), row_of(4, 5)) == pytest.approx(-0.5)


def test_empty_masks() -> None:
    assert metrics.dice(row_of(), row_of(1)) == 0
    assert metrics.jaccard(row_of(1), row_of()) == 0
    assert metrics.volume_error(row_of(), row_of(1)) == -1
    assert metrics.dice(row_of(), row_of()) is None
    assert metrics.jaccard(row_of(), row_of()) is None
    assert metrics.volume_error(row_of(1), row_of()) is None


def test_asd_goes_from_prediction_to_truth_and_assd_pools_both() -> None:
    distances = SurfaceDistances(np.array([1.0, 3.0]), np.array([5.0, 5.0, 6.0, 10.0]))
    assert metrics.asd(distances) == 2.0
    # Pooled: 30 / 6 = 5. The mean of the two means, 2 and 6.5, would be 4.25.
    assert metrics.assd(distances) == 5.0


def test_hd95_is_the_percentile_of_both_directions_together() -> None:
    # 0 nineteen times and 20 once: rank 0.95 * 19 = 18.05, a twentieth of the way from 0 to 20.
    # The larger of the two directions' percentiles would be 20.
    distances = SurfaceDistances(np.zeros(19), np.array([20.0]))
    assert metrics.hd95(distances) == pytest.approx(1.0)


def test_nsd_is_the_share_of_both_surfaces_within_the_tolerance() -> None:
    distances = SurfaceDistances(np.array([0.0, 1.0]), np.array([1.5, 2.0, 9.0]))
    assert metrics.nsd(distances, 1.5) == pytest.approx(3 / 5)
    assert metrics.nsd(distances, 0.0) == pytest.approx(1 / 5)


def test_nsd_does_not_hang_on_the_rounding_of_a_distance() -> None:
    # Three pixels of 0.1 mm are 0.3 mm, but 0.30000001 as 32-bit floats.
    distances = surface_distances(row_of(0), row_of(3), (0.1, 0.1))
    assert metrics.nsd(distances, 0.3) == 1.0
    assert metrics.nsd(distances, 0.299) == 0.0


@pytest.mark.parametrize("mask", [np.ones((4, 5, 6), bool), np.eye(6, dtype=bool)])
def test_identical_masks_are_perfect(mask: Mask) -> None:
    distances = surface_distances(mask, mask, (1.5,) * mask.ndim)
    assert metrics.dice(mask, mask) == metrics.jaccard(mask, mask) == 1
    assert metrics.asd(distances) == metrics.assd(distances) == metrics.hd95(distances) == 0
    assert metrics.nsd(distances, 0.0) == 1
    assert metrics.volume_error(mask, mask) == 0


def random_masks(seed: int) -> tuple[Mask, Mask]:
    masks = np.random.default_rng(seed).random((2, 5, 6, 4)) < 0.3
    masks[:, 2, 2, 2] = True
    return masks[0], masks[1]


@given(SEEDS)
def test_symmetric_metrics_do_not_care_which_is_the_truth(seed: int) -> None:
    here, there = random_masks(seed)
    forth = surface_distances(here, there, (1.0, 0.7, 3.0))
    back = surface_distances(there, here, (1.0, 0.7, 3.0))
    assert metrics.hd95(forth) == pytest.approx(metrics.hd95(back))
    assert metrics.assd(forth) == pytest.approx(metrics.assd(back))
    assert metrics.nsd(forth, 1.0) == metrics.nsd(back, 1.0)
    assert metrics.dice(here, there) == metrics.dice(there, here)


@given(SEEDS)
def test_jaccard_follows_from_dice(seed: int) -> None:
    dice, jaccard = (metric(*random_masks(seed)) for metric in (metrics.dice, metrics.jaccard))
    assert dice is not None
    assert jaccard == pytest.approx(dice / (2 - dice))


@given(SEEDS, st.floats(0.1, 10))
def test_distances_scale_with_the_spacing(seed: int, factor: float) -> None:
    once = surface_distances(*random_masks(seed), (1.0, 0.7, 3.0))
    scaled = surface_distances(*random_masks(seed), (factor, 0.7 * factor, 3.0 * factor))
    assert metrics.hd95(scaled) == pytest.approx(factor * metrics.hd95(once), rel=1e-5)
