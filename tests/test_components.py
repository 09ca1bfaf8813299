"""Components counted by hand."""

import numpy as np
import pytest
from numpy.typing import DTypeLike

from tracoco.components import connected_components, keep_largest


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
