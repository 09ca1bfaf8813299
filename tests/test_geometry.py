import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracoco.geometry import Box, Size, overlap, start_range, whole, window_starts, windows

starts = st.tuples(*[st.integers(-6, 12)] * 3)
sizes = st.tuples(*[st.integers(1, 9)] * 3)


def painted(box: Box) -> np.ndarray:
    canvas = np.zeros((40, 40, 40), dtype=bool)
    canvas[tuple(slice(a + 10, b + 10) for a, b in zip(box.start, box.stop, strict=True))] = True
    return canvas


@given(first=starts, second=starts, size=sizes)
def test_overlap_is_what_both_crops_hold(first: Size, second: Size, size: Size) -> None:
    here, there = overlap(first, second, size)
    shared = painted(Box(first, size)) & painted(Box(second, size))
    assert here.empty == (not shared.any())
    assert np.prod(here.size) == shared.sum()
    assert here.size == there.size
    if not here.empty:
        assert tuple(np.add(here.start, first)) == tuple(np.add(there.start, second))
        assert min(here.start) >= 0
        assert all(b <= n for b, n in zip(here.stop, size, strict=True))


def test_a_short_axis_is_centred() -> None:
    assert start_range(10, 4) == (0, 6)
    assert start_range(4, 4) == (0, 0)
    assert start_range(4, 7) == (-1, -1)
    assert start_range(4, 8) == (-2, -2)


@pytest.mark.parametrize(
    ("length", "size", "stride", "expected"),
    [(10, 4, 4, [0, 3, 6]), (8, 4, 4, [0, 4]), (4, 4, 2, [0]), (3, 4, 2, [0]), (9, 4, 5, [0, 5])],
)
def test_window_starts(length: int, size: int, stride: int, expected: list[int]) -> None:
    assert window_starts(length, size, stride) == expected


@given(
    shape=st.tuples(*[st.integers(1, 24)] * 3),
    size=st.tuples(*[st.integers(1, 8)] * 3),
    share=st.floats(0, 0.9),
)
def test_windows_cover_every_voxel_and_stay_inside(shape: Size, size: Size, share: float) -> None:
    stride = tuple(max(1, round(n * (1 - share))) for n in size)
    covered = np.zeros(shape, dtype=bool)
    for box in windows(shape, size, stride):
        covered[box.intersect(whole(shape)).slices] = True
        for start, n, length in zip(box.start, size, shape, strict=True):
            assert length < n or 0 <= start <= length - n
    assert covered.all()
