"""Changes of intensity by hand."""

from typing import Any

import numpy as np
import pytest

from tracoco.data.augment import bend, change_intensities, coarse, stretch
from tracoco.settings import AugmentationConfig

AXES = (-3, -2, -1)


def image(seed: int = 0, channels: int = 1) -> np.ndarray:
    random = np.random.default_rng(seed)
    return random.normal(3, 2, (channels, 12, 10, 8)).astype(np.float32)


def test_contrast_turns_about_the_mean_and_keeps_the_range() -> None:
    channel = np.array([0, 1, 2, 3, 4], dtype=np.float32)
    stretch(channel, 1.5)
    # 2 -+ 1.5 * 2 is cut off at 0 and 4.
    assert channel.tolist() == pytest.approx([0, 0.5, 2, 3.5, 4])
    stretch(channel, 0.5)
    assert channel.tolist() == pytest.approx([1, 1.25, 2, 2.75, 3])


@pytest.mark.parametrize("inverted", [False, True])
def test_gamma_bends_the_histogram_and_keeps_mean_and_deviation(*, inverted: bool) -> None:
    channel = image()[0]
    before = channel.copy()
    bend(channel, 1.5, inverted=inverted)
    assert channel.mean() == pytest.approx(before.mean(), abs=1e-4)
    assert channel.std() == pytest.approx(before.std(), abs=1e-4)
    order = np.argsort(before, axis=None)
    assert (np.diff(channel.flatten()[order]) >= -1e-6).all()
    # A power above 1 gives the bright side of the histogram more room, inverted the dark one.
    upper = channel.max() - np.median(channel) > before.max() - np.median(before)
    assert upper is np.bool_(not inverted)


def test_gamma_of_a_constant_image_changes_nothing() -> None:
    channel = np.full((3, 3, 3), 7, dtype=np.float32)
    bend(channel, 1.5, inverted=True)
    assert (channel == 7).all()


def test_a_coarser_image_by_hand() -> None:
    channel = np.array([0, 2, 4, 6], dtype=np.float32).reshape(4, 1, 1)
    # Two voxels of 2, the nearest of each pair's middle, then linear between their centres.
    found = coarse(channel, 2.0, (-3,))
    assert found.flatten().tolist() == pytest.approx([2, 3, 5, 6])
    assert coarse(image()[0], 1.0, AXES) == pytest.approx(image()[0])
    flat = coarse(image()[0], 2.0, (-3, -2))
    assert flat.shape == (12, 10, 8)


def alone(**amounts: Any) -> AugmentationConfig:
    return AugmentationConfig(**{"strength": "off"} | amounts)


@pytest.mark.parametrize(
    "amounts",
    [
        alone(gamma=1.5, gamma_chance=1.0),
        alone(contrast=1.5, contrast_chance=1.0),
        alone(brightness=0.5, brightness_chance=1.0),
        alone(noise=0.5, noise_chance=1.0),
        alone(blur_chance=1.0),
        alone(coarse=2.0, coarse_chance=1.0),
    ],
)
def test_each_change_is_drawn_by_its_own_chance_and_leaves_the_outside_dark(
    amounts: AugmentationConfig,
) -> None:
    valid = np.ones((12, 10, 8), dtype=bool)
    valid[:2] = False
    before = image(channels=2) * valid
    changed = before.copy()
    change_intensities(changed, valid, np.random.default_rng(1), amounts, AXES)
    assert not np.array_equal(changed, before)
    assert not changed[:, :2].any()
    assert changed.dtype == np.float32
    again = before.copy()
    change_intensities(again, valid, np.random.default_rng(1), amounts, AXES)
    assert np.array_equal(again, changed)
    untouched = before.copy()
    change_intensities(untouched, valid, np.random.default_rng(1), alone(), AXES)
    assert np.array_equal(untouched, before)


def test_amounts_follow_the_scale_of_the_image() -> None:
    amounts = AugmentationConfig(strength="full", noise_chance=1.0, gamma_chance=1.0)
    valid = np.ones((12, 10, 8), dtype=bool)
    small, large = image(), 1000 * image() - 50
    for each in (small, large):
        change_intensities(each, valid, np.random.default_rng(3), amounts, AXES)
    np.testing.assert_allclose(large, 1000 * small - 50, rtol=1e-2, atol=20)


def test_noise_has_the_deviation_that_was_drawn() -> None:
    amounts = alone(noise=0.4, noise_chance=1.0)
    deviations = []
    for seed in range(60):
        before = image(seed)
        changed = before.copy()
        valid = np.ones((12, 10, 8), dtype=bool)
        change_intensities(changed, valid, np.random.default_rng(seed), amounts, AXES)
        deviations.append((changed - before).std() / before.std())
    assert max(deviations) < 0.43
    assert 0.17 < np.mean(deviations) < 0.23


def test_padding_is_no_part_of_the_image_that_amounts_are_relative_to() -> None:
    amounts = AugmentationConfig(
        strength="full", gamma_chance=1.0, contrast_chance=1.0, blur_chance=0.0, coarse_chance=0.0
    )
    small = image()
    padded = np.zeros((1, 24, 10, 8), dtype=np.float32)
    padded[:, :12] = small
    valid = np.zeros((24, 10, 8), dtype=bool)
    valid[:12] = True
    everywhere = np.ones((12, 10, 8), dtype=bool)
    change_intensities(small, everywhere, np.random.default_rng(2), amounts, AXES)
    change_intensities(padded, valid, np.random.default_rng(2), amounts, AXES)
    np.testing.assert_allclose(padded[:, :12], small, atol=1e-5)
    assert not padded[:, 12:].any()
