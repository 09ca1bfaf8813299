"""Deformations: by hand, by coordinate images, and identical where the crops of a pair meet."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tracoco.config import DataConfig
from tracoco.data.crop_pair import CropPair, CropRule, draw_crop_pair
from tracoco.data.warp import Warp, draw_warp, fine_axes, rotation, sample
from tracoco.geometry import Box, overlap, whole
from tracoco.project.folder import Project
from tracoco.project.store import Store, StoredCase
from tracoco.settings import AugmentationConfig

SPATIAL = AugmentationConfig(
    rotation=25.0,
    rotation_chance=1.0,
    scaling=(0.8, 1.25),
    scaling_chance=1.0,
    elastic=1.0,
    elastic_chance=1.0,
)


def changed(**amounts: Any) -> AugmentationConfig:
    return SPATIAL.model_copy(update=amounts)


def coordinates(shape: tuple[int, ...]) -> NDArray[np.float32]:
    """A volume of three channels that say where a voxel is."""
    return np.stack(np.meshgrid(*map(np.arange, shape), indexing="ij")).astype(np.float32)


def still(matrix: NDArray[np.float64] | None = None, pivot: tuple[float, ...] = (0, 0, 0)) -> Warp:
    return Warp(np.eye(3) if matrix is None else matrix, np.array(pivot, dtype=np.float64))


def test_nothing_moves_without_a_matrix_and_what_lies_outside_is_marked() -> None:
    image, label = coordinates((6, 5, 4)), np.arange(120, dtype=np.uint8).reshape(6, 5, 4)
    box = Box((2, -1, 1), (5, 4, 3))
    values, valid, found = sample(image, label, box, still(), whole(box.size))
    covered = box.intersect(whole((6, 5, 4)))
    part = covered.seen_from(box.start).slices
    assert np.array_equal(values[:, *part], image[:, *covered.slices])
    assert found is not None
    assert np.array_equal(found[part], label[covered.slices])
    expected = np.zeros(box.size, dtype=bool)
    expected[part] = True
    assert np.array_equal(valid, expected)
    assert not values[:, ~valid].any()
    assert not found[~valid].any()


def test_a_quarter_turn_about_the_middle_is_numpys() -> None:
    image = np.random.default_rng(0).random((1, 7, 7, 3)).astype(np.float32)
    turn = rotation(np.array([math.pi / 2]), [0, 1])
    values, valid, _ = sample(image, None, whole((7, 7, 3)), still(turn, (3, 3, 1)), whole((1,)))
    # The voxel at (i, j) comes from (6 - j, i).
    np.testing.assert_allclose(values, np.rot90(image, -1, axes=(1, 2)), atol=1e-5)
    assert valid.all()


def test_scaling_about_the_middle_by_hand() -> None:
    # Structures twice as large: a step in the result is half a step in the volume.
    values, _, _ = sample(
        coordinates((9, 9, 9)), None, whole((9, 9, 9)), still(np.eye(3) / 2, (4, 4, 4)), whole((1,))
    )
    assert values[0, :, 0, 0].tolist() == pytest.approx([2 + 0.5 * i for i in range(9)])
    assert values[2, 0, 0, :].tolist() == pytest.approx([2 + 0.5 * i for i in range(9)])


@given(seed=st.integers(0, 2000))
def test_linear_interpolation_of_a_coordinate_image_gives_the_places(seed: int) -> None:
    random = np.random.default_rng(seed)
    shape, box = (20, 22, 18), Box((3, 2, 4), (12, 14, 10))
    warp = draw_warp(random, SPATIAL, box, (1.0, 1.0, 1.5))
    assert warp is not None
    values, valid, _ = sample(coordinates(shape), None, box, warp, whole((1,)))
    places = warp.places(box).numpy()
    limits = np.array(shape).reshape(3, 1, 1, 1) - 1
    np.testing.assert_allclose(
        values[:, valid], places.clip(0, limits)[:, valid], rtol=0, atol=2e-4
    )
    outside = ((places < -0.5) | (places > limits + 0.5)).any(axis=0)
    assert np.array_equal(~valid, outside)


def test_a_rotation_keeps_lengths_in_millimetres_also_with_uneven_voxels() -> None:
    turned = changed(elastic_chance=0.0, scaling_chance=0.0)
    spacing, box = np.array([1.0, 1.0, 2.0]), Box((0, 0, 0), (32, 32, 16))
    warp = draw_warp(np.random.default_rng(1), turned, box, tuple(spacing))
    assert warp is not None
    in_mm = np.diag(spacing) @ warp.matrix @ np.diag(1 / spacing)
    np.testing.assert_allclose(in_mm @ in_mm.T, np.eye(3), atol=1e-12)
    assert np.linalg.det(in_mm) == pytest.approx(1)
    assert not np.allclose(in_mm, np.eye(3), atol=0.01)


def test_thick_slices_and_single_ones_stay_in_their_plane() -> None:
    assert fine_axes((32, 32, 16), (1.0, 1.0, 2.9)) == [0, 1, 2]
    assert fine_axes((32, 32, 16), (1.0, 1.0, 3.0)) == [0, 1]
    assert fine_axes((1, 32, 32), (0.5, 1.0, 1.0)) == [1, 2]
    for size, spacing, axis in (((16, 16, 4), (1, 1, 5), 2), ((1, 16, 16), (8, 1, 1), 0)):
        box = Box((2, 2, 2), size)
        warp = draw_warp(np.random.default_rng(0), SPATIAL, box, spacing)
        assert warp is not None
        place = warp.places(box)[axis]
        expected = torch.arange(2, 2 + size[axis]).reshape(
            [-1 if other == axis else 1 for other in range(3)]
        )
        torch.testing.assert_close(place, expected.expand_as(place).float())


def test_what_has_no_chance_is_not_drawn() -> None:
    box = Box((0, 0, 0), (8, 8, 8))
    assert (
        draw_warp(np.random.default_rng(0), AugmentationConfig(strength="off"), box, (1, 1, 1))
        is None
    )
    half = changed(rotation_chance=0.5, scaling_chance=0.0, elastic_chance=0.0)
    drawn = [draw_warp(np.random.default_rng(s), half, box, (1, 1, 1)) for s in range(200)]
    assert 70 < sum(warp is not None for warp in drawn) < 130
    angles = [math.degrees(math.asin(w.matrix[1, 0])) for w in drawn if w is not None]
    assert max(map(abs, angles)) <= 50
    assert min(angles) < -10 < 10 < max(angles)


def test_structures_grow_and_shrink_as_the_setting_says() -> None:
    scaled = changed(rotation_chance=0.0, elastic_chance=0.0)
    box = Box((0, 0, 0), (8, 8, 8))
    warps = [draw_warp(np.random.default_rng(s), scaled, box, (1, 1, 1)) for s in range(200)]
    factors = [1 / warp.matrix[0, 0] for warp in warps if warp is not None]
    assert 0.8 <= min(factors) < 0.83
    assert 1.2 < max(factors) <= 1.25
    assert abs(np.mean(np.log(factors))) < 0.03


def rule(size: tuple[int, ...], **settings: Any) -> CropRule:
    plane = (1, 2) if size[0] == 1 else (0, 1)
    config = DataConfig(augmentation=AugmentationConfig(strength="full", **settings))
    return CropRule(size, plane, turns=True, config=config)


def stored(project: Project) -> StoredCase:
    return Store(project.store_root).case(project.load_splits().labelled[0])


def assert_meet(pair: CropPair, size: tuple[int, ...]) -> None:
    here, there = overlap(pair.first.start, pair.second.start, size)
    assert not here.empty
    assert np.array_equal(pair.first.values[:, *here.slices], pair.second.values[:, *there.slices])
    assert np.array_equal(pair.first.valid[here.slices], pair.second.valid[there.slices])


@pytest.mark.parametrize("size", [(14, 12, 10), (1, 14, 12), (40, 12, 10)])
@pytest.mark.parametrize("flips", ["all", "none"])
def test_both_crops_of_a_pair_are_the_same_where_they_meet(
    project: Project, size: tuple[int, ...], flips: str
) -> None:
    made = rule(size, elastic=1.0, elastic_chance=0.5, noise_chance=1.0, blur_chance=0.5)
    made = replace(made, config=made.config.model_copy(update={"flips": flips, "turns": True}))
    shifts = set()
    for seed in range(25):
        pair = draw_crop_pair(stored(project), made, np.random.default_rng(seed), labelled=True)
        assert pair.first.values.shape == pair.second.values.shape == (1, *size)
        assert_meet(pair, size)
        assert pair.label is not None
        assert pair.label.shape == size
        assert np.isfinite(pair.first.values).all()
        shifts.add(tuple(np.subtract(pair.first.start, pair.second.start)))
    assert len(shifts) > 10


def test_the_label_follows_the_image(project: Project) -> None:
    bright = []
    made = rule((20, 20, 16), gamma_chance=0.0, contrast_chance=0.0, noise_chance=0.0)
    for seed in range(20):
        pair = draw_crop_pair(stored(project), made, np.random.default_rng(seed), labelled=True)
        assert pair.label is not None
        ball = pair.label.astype(bool)
        if 20 < ball.sum() < ball.size - 20:
            values, rest = pair.first.values[0], pair.first.valid & ~ball
            bright.append(values[ball].mean() - values[rest].mean())
    # The ball is bright: were label and image deformed differently, the contrast would vanish.
    assert len(bright) > 10
    assert min(bright) > 0.2


def test_the_papers_strong_augmentation_comes_on_top(project: Project) -> None:
    plain = rule((14, 12, 10))
    strong = replace(plain, config=plain.config.model_copy(update={"strong": True}))
    pairs = [
        draw_crop_pair(stored(project), each, np.random.default_rng(5), labelled=True)
        for each in (plain, strong)
    ]
    assert pairs[0].first.start == pairs[1].first.start
    assert not np.array_equal(pairs[0].first.values, pairs[1].first.values)
    assert_meet(pairs[1], (14, 12, 10))


def test_without_pairs_the_second_crop_is_not_read(project: Project) -> None:
    made = replace(rule((14, 12, 10)), pairs=False)
    pair = draw_crop_pair(stored(project), made, np.random.default_rng(0), labelled=False)
    assert pair.second.values.size == 0
    assert pair.first.values.shape == (1, 14, 12, 10)
    assert pair.label is None


NO_CHANCES = AugmentationConfig(
    **{name: 0.0 for name in AugmentationConfig.model_fields if name.endswith("_chance")}  # type: ignore[arg-type]  # all are chances
)


def test_off_draws_the_batches_that_there_were(project: Project) -> None:
    plain = replace(rule((14, 12, 10)), config=DataConfig(augmentation=NO_CHANCES))
    off = replace(plain, config=DataConfig(augmentation=AugmentationConfig(strength="off")))
    a, b = (
        draw_crop_pair(stored(project), each, np.random.default_rng(4), labelled=True)
        for each in (plain, off)
    )
    assert np.array_equal(a.first.values, b.first.values)
    assert a.second.start == b.second.start


def test_one_amount_can_be_changed_alone_and_off_may_be_yamls_false() -> None:
    full = AugmentationConfig(strength="full")
    changed_one = AugmentationConfig(strength="full", rotation=5.0)
    assert changed_one == full.model_copy(update={"rotation": 5.0})
    assert changed_one.active
    assert not AugmentationConfig.model_validate({"strength": False}).active
    assert AugmentationConfig(strength="off", rotation=5.0, rotation_chance=0.1).active
    # What a run has recorded stays, whatever a strength stands for later.
    assert AugmentationConfig.model_validate(full.model_dump()) == full
    with pytest.raises(ValueError, match="'off', 'light' or 'full'"):
        AugmentationConfig.model_validate({"strength": "strong"})
