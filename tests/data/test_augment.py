from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracoco.data.augment import (
    Appearance,
    Orientation,
    blur,
    blur_reach,
    brighten,
    draw_brightness,
    draw_orientation,
    draw_strong,
    spread,
)
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


def test_contrast_moves_intensities_away_from_the_pivot_of_their_channel() -> None:
    values = np.array([[0.2, 0.4], [0.9, 0.5]], dtype=np.float32)
    pivot = np.array([[0.3], [0.5]], dtype=np.float32)
    # 0.3 -+ 1.5 * 0.1, and 0.5 + 1.5 * 0.4 = 1.1, which is cut off.
    wider = spread(values, 1.5, pivot)
    assert wider.dtype == np.float32
    assert wider.tolist() == [pytest.approx([0.15, 0.45]), pytest.approx([1.0, 0.5])]
    assert spread(values, 0.5, pivot)[0].tolist() == pytest.approx([0.25, 0.35])


def test_z_scores_keep_to_their_own_limits() -> None:
    values = np.array([[[[-2.0, 1.0, 4.0]]]], dtype=np.float32)
    appearance = Appearance(1.5, limits=(-5.0, 5.0))
    assert appearance.apply(values, ()).ravel().tolist() == [-3.0, 1.5, 5.0]
    strong = draw_strong(np.random.default_rng(0), appearance, values)
    assert strong.limits == (-5.0, 5.0)
    assert strong.pivot is not None
    assert strong.pivot.item() == pytest.approx(3.5 / 3)  # of what the brightness left
    wide = Appearance(1.0, 3.0, np.ones((1, 1, 1, 1), dtype=np.float32), limits=(-5.0, 5.0))
    assert wide.apply(values, ()).ravel().tolist() == [-5.0, 1.0, 5.0]  # of -8, 1 and 10


def test_a_blur_is_a_gaussian_along_its_axes_and_keeps_the_border_bright() -> None:
    impulse = np.zeros((1, 3, 21, 21), dtype=np.float32)
    impulse[0, 1, 10, 10] = 1
    blurred = blur(impulse, 2.0, (-2, -1))
    assert blurred.dtype == np.float32
    assert (blurred[0, [0, 2]] == 0).all()
    # One deviation away a Gaussian has fallen to exp(-1/2), two axes of it to exp(-1).
    assert blurred[0, 1, 12, 10] / blurred[0, 1, 10, 10] == pytest.approx(np.exp(-0.5))
    assert blurred[0, 1, 12, 12] / blurred[0, 1, 10, 10] == pytest.approx(np.exp(-1))
    assert blurred.sum() == pytest.approx(1, abs=1e-5)
    reach = blur_reach(2.0)
    assert blurred[0, 1, 10 + reach, 10] > 0 == blurred[0, 1, 10 + reach + 1, 10]
    assert blur(np.ones((1, 4, 4, 4), dtype=np.float32), 1.5, (-3, -2, -1)) == pytest.approx(1)


def test_brightness_comes_before_contrast() -> None:
    values = np.full((1, 1, 1, 2), 0.9, dtype=np.float32)
    pivot = np.full((1, 1, 1, 1), 0.5, dtype=np.float32)
    # 0.9 * 1.2 is cut to 1, then 0.5 + 0.5 * 0.5; the other way round it would be 0.84.
    changed = Appearance(1.2, 0.5, pivot).apply(values, ())
    assert changed.ravel().tolist() == pytest.approx([0.75, 0.75])
    assert (Appearance(1.2).apply(values, ()) == brighten(values, 1.2)).all()


def test_strong_changes_have_their_ranges_and_turn_about_the_bright_mean_of_each_channel() -> None:
    voxels = np.stack([np.full((2, 2, 2), 0.2), np.full((2, 2, 2), 0.4)]).astype(np.float32)
    appearance = Appearance(1.25)
    drawn = [draw_strong(np.random.default_rng(seed), appearance, voxels) for seed in range(2000)]
    contrasts = [appearance.contrast for appearance in drawn]
    sigmas = [appearance.sigma for appearance in drawn if appearance.sigma]
    assert 0.5 <= min(contrasts) < 0.52
    assert 1.48 < max(contrasts) <= 1.5
    assert 0.1 <= min(sigmas) < 0.13
    assert 1.97 < max(sigmas) <= 2
    assert 0.46 < len(sigmas) / len(drawn) < 0.54
    assert drawn[0].pivot is not None
    assert drawn[0].pivot.shape == (2, 1, 1, 1)
    assert drawn[0].pivot.ravel().tolist() == pytest.approx([0.25, 0.5])
