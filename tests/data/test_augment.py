from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracoco.data.augment import Orientation, brighten, draw_brightness, draw_orientation
from tracoco.geometry import Box

ORIENTATIONS = [
    Orientation((0, 1), exchanged, tuple(axis for axis, flip in enumerate(flips) if flip))
    for exchanged, flips in product((False, True), product((False, True), repeat=3))
]


@pytest.mark.parametrize("orientation", ORIENTATIONS)
@given(data=st.data())
def test_a_box_read_and_oriented_is_the_box_of_the_oriented_volume(
    orientation: Orientation, data: st.DataObject
) -> None:
    volume = np.arange(2 * 7 * 6 * 5).reshape(2, 7, 6, 5)
    shape = volume.shape[1:]
    size = tuple(data.draw(st.integers(1, n)) for n in shape)
    start = tuple(data.draw(st.integers(0, n - s)) for n, s in zip(shape, size, strict=True))
    box = Box(start, size)
    crop = orientation.apply(volume[:, *box.slices])
    place = orientation.place(box, shape)
    oriented = orientation.apply(volume)
    assert (crop == oriented[:, *Box(place, crop.shape[1:]).slices]).all()
    assert orientation.size_before(crop.shape[1:]) == size


def test_quarter_turns_are_those_of_numpy() -> None:
    volume = np.arange(4 * 4 * 3).reshape(4, 4, 3)
    turned = {np.rot90(volume, k, axes=(0, 1)).tobytes() for k in range(4)}
    drawn = set()
    for seed in range(60):
        orientation = draw_orientation(
            np.random.default_rng(seed), (0, 1), flip_axes=(), turns=True
        )
        drawn.add(orientation.apply(volume).tobytes())
    assert drawn == turned


def test_flips_and_turns_reach_all_sixteen_orientations_and_flips_alone_eight() -> None:
    volume = np.arange(4 * 4 * 3).reshape(4, 4, 3)
    for turns, count in ((True, 16), (False, 8)):
        drawn = {
            draw_orientation(np.random.default_rng(seed), (0, 1), flip_axes=(0, 1, 2), turns=turns)
            .apply(volume)
            .tobytes()
            for seed in range(300)
        }
        assert len(drawn) == count


def test_brightness_stays_in_range() -> None:
    factors = [draw_brightness(np.random.default_rng(seed), 0.25) for seed in range(200)]
    assert 0.75 <= min(factors) < 0.8
    assert 1.2 < max(factors) <= 1.25
    values = np.array([0.2, 0.9], dtype=np.float32)
    assert brighten(values, 1.25).tolist() == pytest.approx([0.25, 1.0])
    assert brighten(values, 1.25).dtype == np.float32
