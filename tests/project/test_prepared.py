from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tracoco.errors import UserError
from tracoco.geometry import Box
from tracoco.project.cases import Case
from tracoco.project.plan import Plan
from tracoco.project.prepare import prepare_case
from tracoco.project.store import foreground_voxels

Save = Callable[..., Path]


@pytest.fixture
def case(tmp_path: Path, save: Save) -> Case:
    """6 x 6 x 6 voxels of 1 mm; the upper half is 7."""
    image = np.random.default_rng(0).random((6, 6, 6), dtype=np.float32)
    label = np.zeros((6, 6, 6), dtype=np.uint8)
    label[:, :, 3:] = 7
    return Case("a", (save(tmp_path / "a.nii", image),), save(tmp_path / "a_label.nii", label))


def test_a_case_comes_to_the_grid_of_the_plan(case: Case, plan: Plan) -> None:
    prepared = prepare_case(case, plan)
    # 6 mm in voxels of 1, 2 and 3 mm.
    assert prepared.shape == (6, 3, 2)
    assert prepared.spacing_mm == pytest.approx((1, 2, 3))
    assert prepared.image.shape == (1, 6, 3, 2)
    assert prepared.label is not None
    assert (prepared.label[..., 0] == 0).all()
    assert (prepared.label[..., 1] == 1).all()  # the class of the value 7


def test_the_true_spacing_is_noted_where_the_size_does_not_divide(case: Case, plan: Plan) -> None:
    plan = plan.model_copy(update={"spacing_mm": (4, 1, 1)})
    # round(6 / 4) = 2 voxels for 6 mm.
    assert prepare_case(case, plan).spacing_mm == pytest.approx((3, 1, 1))


def test_a_case_without_a_label_has_none(case: Case, plan: Plan) -> None:
    assert prepare_case(Case("a", case.images, None), plan).label is None


def test_the_label_must_still_fit(case: Case, plan: Plan, save: Save) -> None:
    assert case.label is not None
    save(case.label, np.zeros((6, 6, 7), dtype=np.uint8))
    with pytest.raises(UserError, match=r"has the shape \(6, 6, 7\), its image .* leaves the grid"):
        prepare_case(case, plan)


def test_channels_must_be_those_of_the_plan(case: Case, plan: Plan, save: Save) -> None:
    save(case.images[0], np.zeros((6, 6, 6, 2), dtype=np.uint8))
    with pytest.raises(UserError, match=r"a\.nii has 2 channels, the plan 1"):
        prepare_case(case, plan)


def test_structures_in_the_margin_are_lost_and_counted(case: Case, plan: Plan, save: Save) -> None:
    image = np.zeros((6, 6, 6), dtype=np.float32)
    image[:, 2:, :4] = np.random.default_rng(0).uniform(1, 2, (6, 4, 4))
    save(case.images[0], image)
    plan = plan.model_copy(update={"spacing_mm": (1, 1, 1), "crop_to_content": True})
    prepared = prepare_case(case, plan)
    assert prepared.box == Box((0, 2, 0), (6, 4, 4))
    assert (prepared.shape, prepared.scan_shape) == ((6, 4, 4), (6, 6, 6))
    assert prepared.label is not None
    # The label has the upper 3 of 6 layers, 36 voxels each; a layer of 6 x 4 is left of it.
    assert np.count_nonzero(prepared.label) == 24
    assert "84 labelled voxels lost, which lie in that margin" in prepared.steps
    box = "voxels (0, 2, 0) to before (6, 6, 4) of (6, 6, 6): the rest is a constant margin"
    assert box in prepared.steps
    assert "resampled from (6, 4, 4) voxels of (1.0, 1.0, 1.0) mm" in prepared.steps


def test_a_scan_that_is_kept_whole_says_nothing_of_a_margin(case: Case, plan: Plan) -> None:
    assert not any("margin" in step for step in prepare_case(case, plan).steps)


def test_foreground_voxels_are_in_the_foreground_and_always_the_same() -> None:
    label = np.zeros((20, 20, 20), dtype=np.uint8)
    label[2:18, 3:17, 4:16] = 1  # 2,688 voxels
    label[9:11, 9:11, 9:11] = 2  # 8 voxels
    voxels = foreground_voxels(label, "a")
    classes = label[tuple(voxels.T)]
    assert voxels.dtype == np.int32
    # At most 1000 / 2 of each of the two classes.
    assert np.bincount(classes).tolist() == [0, 500, 8]
    assert len(np.unique(voxels, axis=0)) == 508
    assert np.array_equal(voxels, foreground_voxels(label, "a"))
    assert not np.array_equal(voxels, foreground_voxels(label, "b"))


def test_without_foreground_there_are_no_voxels() -> None:
    assert foreground_voxels(np.zeros((3, 3, 3), dtype=np.uint8), "a").shape == (0, 3)


def test_the_steps_say_how_each_channel_was_normalised(case: Case, plan: Plan) -> None:
    steps = prepare_case(case, plan).steps
    assert "channel 0 clipped at its percentiles 0.5 and 99.5 and scaled to [0, 1]" in steps
    window = plan.model_copy(update={"window": ((-125.0, 275.0),)})
    steps = prepare_case(case, window).steps
    assert "channel 0 clipped at -125.0 and 275.0 and scaled to [0, 1]" in steps
    changes = {"normalisation": "zscore", "window_mean_sd": ((80.0, 40.0),)}
    steps = prepare_case(case, window.model_copy(update=changes)).steps
    assert "channel 0 clipped at -125.0 and 275.0, less 80, divided by 40" in steps
    changes = {"normalisation": "zscore", "statistics_over": ("above_air",)}
    steps = prepare_case(case, plan.model_copy(update=changes)).steps
    assert (
        "channel 0 less the mean and divided by the deviation of its voxels brighter than air, "
        "clipped at percentiles 0.5 and 99.5"
    ) in steps
