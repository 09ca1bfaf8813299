import numpy as np
import pytest
from numpy.typing import NDArray

from tracoco.geometry import Box, whole
from tracoco.scans.scan import content_box


def image(*channels: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.stack(channels).astype(np.float32)


def block(
    start: tuple[int, ...], stop: tuple[int, ...], valid: float, outside: float = 0.0
) -> NDArray[np.float32]:
    """6 x 7 x 8 voxels with another value in a block of them."""
    array = np.full((6, 7, 8), outside, dtype=np.float32)
    array[tuple(slice(a, b) for a, b in zip(start, stop, strict=True))] = valid
    return array


def test_the_box_holds_all_that_differs_from_the_first_voxel() -> None:
    found = content_box(image(block((1, 2, 3), (4, 4, 7), 5)))
    assert found == Box((1, 2, 3), (3, 2, 4))


def test_two_voxels_far_apart_are_both_inside() -> None:
    array = np.zeros((1, 6, 7, 8), dtype=np.float32)
    array[0, 1, 5, 2] = array[0, 4, 1, 6] = 1
    assert content_box(array) == Box((1, 1, 2), (4, 5, 5))


def test_a_margin_may_be_on_one_side_only() -> None:
    assert content_box(image(block((2, 0, 0), (6, 7, 8), 1))) == Box((2, 0, 0), (4, 7, 8))
    # The first voxel lies in the block here: what differs is the rest, and the block is the margin.
    assert content_box(image(block((0, 0, 0), (2, 7, 8), 1))) == Box((2, 0, 0), (4, 7, 8))


def test_one_corner_that_differs_leaves_the_margin_at_the_other_end() -> None:
    found = content_box(image(block((0, 0, 1), (6, 7, 4), 1)))
    assert found == Box((0, 0, 1), (6, 7, 3))


def test_the_background_may_be_negative_and_darker_than_zero() -> None:
    # The content is 0, as the background of other scans is.
    found = content_box(image(block((1, 1, 1), (3, 3, 3), 0, outside=-1024)))
    assert found == Box((1, 1, 1), (2, 2, 2))


def test_a_voxel_is_inside_if_any_channel_differs_from_its_own_background() -> None:
    first = block((1, 1, 1), (3, 3, 3), 9, outside=4)
    second = block((2, 0, 4), (5, 2, 6), -7, outside=-2)
    # x from 1 to 5, y from 0 to 3, z from 1 to 6.
    assert content_box(image(first, second)) == Box((1, 0, 1), (4, 3, 5))
    assert content_box(image(second, first)) == Box((1, 0, 1), (4, 3, 5))


@pytest.mark.parametrize("value", [0.0, -3.0])
def test_a_constant_image_stays_whole(value: float) -> None:
    constant = np.full((2, 3, 4, 5), value, dtype=np.float32)
    constant[1] += 1  # each channel has its own value
    assert content_box(constant) == whole((3, 4, 5))


def test_one_voxel_of_content_is_enough() -> None:
    array = np.zeros((1, 3, 4, 5), dtype=np.float32)
    array[0, 2, 3, 4] = 1
    assert content_box(array) == Box((2, 3, 4), (1, 1, 1))
    assert content_box(np.ones((1, 1, 1, 1), dtype=np.float32)) == whole((1, 1, 1))


def test_the_layout_in_memory_does_not_matter() -> None:
    array = image(block((1, 2, 3), (4, 4, 7), 5), block((0, 2, 3), (1, 3, 4), 5))
    assert content_box(np.asfortranarray(array)) == content_box(array)
