from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracoco.project.planner import choose_crop


def in_time(crop: tuple[int, int, int]) -> bool:
    return prod(crop) <= 96**3


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        # 2/3 of 96 is 64; of 72 is 48; of 48 is 32.
        ((96, 72, 48), (64, 48, 32)),
        # 2/3 of 40 is 26.7: 16 is less than half of 40, so a multiple of 8.
        ((40, 40, 40), (24, 24, 24)),
        # Thin axes are taken whole, rounded up to a multiple of 4.
        ((96, 9, 23), (64, 12, 24)),
        ((24, 8, 1), (16, 8, 4)),
        # 2/3 are 112 x 96 x 64 = 688,128 voxels, fewer than 96^3 = 884,736.
        ((168, 144, 96), (112, 96, 64)),
        # 2/3 are 336 x 336 x 64; shrunk by turns until 112 x 112 x 64 = 802,816.
        ((512, 512, 100), (112, 112, 64)),
    ],
)
def test_crops_leave_room_to_translate(
    lengths: tuple[float, float, float], expected: tuple[int, int, int]
) -> None:
    assert choose_crop(lengths, 3, in_time) == expected


def test_slices_are_taken_singly() -> None:
    assert choose_crop((10, 256, 216), 2, in_time) == (1, 160, 144)


@pytest.mark.parametrize(
    ("most", "expected"),
    [
        (64 * 64 * 64, (64, 64, 64)),
        # The longest axis first, and of equal ones the first.
        (64 * 64 * 64 - 1, (48, 64, 64)),
        (48 * 48 * 48, (48, 48, 48)),
        (1, (32, 32, 32)),
    ],
)
def test_little_memory_cuts_the_longest_axis(most: int, expected: tuple[int, int, int]) -> None:
    assert choose_crop((100, 100, 100), 3, lambda crop: prod(crop) <= most) == expected


def test_a_thin_axis_is_not_cut() -> None:
    # 64 x 64 x 20 voxels are few enough; the slices stay, which are rounded up to 20.
    assert choose_crop((300, 300, 18), 3, lambda crop: prod(crop) <= 64 * 64 * 20) == (64, 64, 20)


@given(st.tuples(*[st.floats(1, 2000)] * 3), st.sampled_from((2, 3)))
def test_every_crop_can_be_halved_and_fits(
    lengths: tuple[float, float, float], dimensions: int
) -> None:
    crop = choose_crop(lengths, dimensions, in_time)
    assert prod(crop) <= 96**3
    for length, size in list(zip(lengths, crop, strict=True))[3 - dimensions :]:
        assert size % (4 if length < 24 else 8) == 0
        assert size >= 4
        assert size <= 2 / 3 * length or length < 24
