"""Components counted by hand."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import DTypeLike, NDArray

from tracoco.components import connected_components, keep_largest, remove_small_components


def test_components_have_numbers_and_sizes() -> None:
    mask = np.array([[1, 1, 0, 0], [0, 0, 0, 1], [0, 0, 0, 1], [0, 0, 0, 1]], dtype=bool)
    numbers, sizes = connected_components(mask)
    assert sizes[numbers[0, 0]] == 2
    assert sizes[numbers[3, 3]] == 3
    assert sizes[numbers[1, 0]] == 0
    assert sorted(sizes) == [0, 2, 3]


@pytest.mark.parametrize("dtype", [np.uint8, np.int64])
def test_of_each_class_the_largest_component_stays(dtype: DTypeLike) -> None:
    label = np.array([[1, 1, 0, 3], [0, 0, 0, 0], [3, 3, 0, 1], [3, 0, 0, 2]], dtype=dtype)
    kept = keep_largest(label)
    assert kept.tolist() == [[1, 1, 0, 0], [0, 0, 0, 0], [3, 3, 0, 0], [3, 0, 0, 2]]
    assert kept.dtype == dtype
    assert label[0, 3] == 3  # the caller's array is left as it is


def test_of_equal_components_the_first_stays() -> None:
    assert keep_largest(np.array([[1, 0, 1], [0, 0, 0], [1, 0, 1]]))[0].tolist() == [1, 0, 0]


def test_voxels_that_touch_at_a_corner_belong_together() -> None:
    label = np.zeros((4, 4, 4), dtype=np.uint8)
    label[0, 0, 0] = label[1, 1, 1] = label[3, 3, 0] = 1
    kept = keep_largest(label)
    assert np.argwhere(kept).tolist() == [[0, 0, 0], [1, 1, 1]]


def test_a_label_without_foreground_stays_as_it_is() -> None:
    assert not keep_largest(np.zeros((3, 3), dtype=np.uint8)).any()


SHAPE = (30, 20, 10)  # 6000 voxels: 1/1500 of them are 4


def volume(dtype: DTypeLike = np.uint8, value: int = 1) -> NDArray[Any]:
    """A block of 125 voxels."""
    label = np.zeros(SHAPE, dtype=dtype)
    label[:5, :5, :5] = value
    return label


def test_a_component_goes_if_it_is_smaller_than_the_fraction_and_stays_if_it_has_it() -> None:
    label = volume()
    label[20, 10, 2:5] = 1  # 3 voxels, below 4
    label[10, 10, 2:6] = 1  # 4 voxels
    cleaned = remove_small_components(label)
    assert not cleaned[20].any()
    assert cleaned[10].sum() == 4
    assert cleaned[:5].sum() == 125
    assert label[20].sum() == 3  # the caller's array is left as it is


def test_the_share_can_be_another() -> None:
    label = volume()
    label[10, 10, 2:6] = 1
    assert remove_small_components(label, fraction=5 / 6000)[10].sum() == 0
    assert remove_small_components(label, fraction=0).sum() == 129


def test_the_largest_component_of_a_class_stays_however_small_it_is() -> None:
    label = np.zeros(SHAPE, dtype=np.uint8)
    label[3, 3, 3:5] = 1
    label[20, 3, 3] = 1
    cleaned = remove_small_components(label)
    assert np.argwhere(cleaned).tolist() == [[3, 3, 3], [3, 3, 4]]


def test_classes_are_cleaned_apart() -> None:
    # Two voxels of class 2 on the block of class 1: alone they are a speck, but they are all that
    # class 2 has. Far away, three voxels of class 1 and three of class 3 touch; 3 has a block too.
    label = volume()
    label[5, 0, :2] = 2
    label[20, 10, 2:5] = 1
    label[20, 11, 2:5] = 3
    label[25:, 15:, 5:] = 3
    cleaned = remove_small_components(label)
    assert {value: int((cleaned == value).sum()) for value in (1, 2, 3)} == {1: 125, 2: 2, 3: 125}


def test_a_voxel_at_a_corner_stays_with_its_component() -> None:
    label = volume()
    label[5, 5, 5] = 1  # touches the block's last voxel at a corner only
    assert remove_small_components(label)[5, 5, 5] == 1
    label[7, 7, 7] = 1  # one voxel further: apart
    assert remove_small_components(label)[7, 7, 7] == 0


@pytest.mark.parametrize("thin", [None, 0, 1, 2])
def test_an_image_and_a_volume_of_one_slice(thin: int | None) -> None:
    label = np.zeros((60, 50), dtype=np.uint8)  # 3000 pixels: 2 are enough
    label[:5, :5] = 1
    label[5, 5] = 1  # at a corner
    label[30, 30] = 1
    label[40, 30:32] = 1
    if thin is not None:
        label = np.expand_dims(label, thin)
    cleaned = remove_small_components(label)
    assert cleaned.shape == label.shape
    assert cleaned.sum() == 25 + 1 + 2


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int16, np.uint16, np.int32, np.int64])
def test_values_and_their_type_are_kept(dtype: DTypeLike) -> None:
    label = volume(dtype, value=100)
    label[20, 10, 2] = 100
    label[20, 15, 2:9] = 7
    cleaned = remove_small_components(label)
    assert cleaned.dtype == dtype
    assert np.unique(cleaned).tolist() == [0, 7, 100]
    assert (cleaned == 100).sum() == 125


def test_nothing_is_made_of_nothing() -> None:
    assert not remove_small_components(np.zeros(SHAPE, dtype=np.uint8)).any()
