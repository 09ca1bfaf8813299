"""Strides and kernels that an nnU-Net would choose, worked out by hand."""

from math import prod

import pytest

from tracoco.networks.from_monai import plan_levels


def test_a_cube_is_halved_until_four_voxels_are_left() -> None:
    # 96, 48, 24, 12, 6; half of 6 is less than 4.
    plan = plan_levels((96, 96, 96), filters=32)
    assert plan.strides == ((1, 1, 1), *[(2, 2, 2)] * 4)
    assert plan.kernels == ((3, 3, 3),) * 5
    assert plan.widths == (32, 64, 128, 256, 320)


def test_128_voxels_are_halved_five_times() -> None:
    plan = plan_levels((128, 128), filters=32)
    assert plan.strides == ((1, 1), *[(2, 2)] * 5)
    assert plan.widths == (32, 64, 128, 256, 320, 320)


def test_there_are_never_more_than_five_halvings() -> None:
    assert len(plan_levels((512, 512), filters=16).strides) == 6


def test_a_short_axis_stops_before_the_others() -> None:
    # 16, 8, 4, then 4 stays; 128, 64, 32, 16, 8, 4.
    plan = plan_levels((16, 128, 128), filters=32)
    steps = ((2, 2, 2), (2, 2, 2), (1, 2, 2), (1, 2, 2), (1, 2, 2))
    assert plan.strides == ((1, 1, 1), *steps)


def test_an_odd_length_is_not_halved() -> None:
    # 90, then 45, which is odd; 7 from the start.
    plan = plan_levels((90, 32, 7), filters=8)
    assert plan.strides == ((1, 1, 1), (2, 2, 1), (1, 2, 1), (1, 2, 1))


def test_along_a_single_voxel_the_kernel_is_one() -> None:
    plan = plan_levels((1, 16, 16), filters=8)
    assert plan.kernels == ((1, 3, 3),) * 3
    assert plan.strides == ((1, 1, 1), (1, 2, 2), (1, 2, 2))


def test_a_crop_that_cannot_be_halved_has_one_level() -> None:
    plan = plan_levels((7, 5), filters=8)
    assert plan.strides == ((1, 1),)
    assert plan.widths == (8,)


@pytest.mark.parametrize("crop", [(112, 112, 80), (48, 20, 36), (250, 6)])
def test_the_strides_of_each_axis_divide_its_length(crop: tuple[int, ...]) -> None:
    strides = plan_levels(crop, filters=8).strides
    for axis, length in enumerate(crop):
        total = prod(stride[axis] for stride in strides)
        assert length % total == 0
        assert length // total >= 4
