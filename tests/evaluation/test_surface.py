"""Surfaces and the distances between them, by hand."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from scipy import ndimage

import tracoco.evaluation.metrics as module
from tracoco.evaluation.metrics import Mask, _by_map, _by_tree, surface, surface_distances

MASKS = arrays(bool, st.sampled_from([(5, 6), (1, 7), (4, 3, 5), (3, 1, 4)]))


def voxels(shape: tuple[int, ...], *places: tuple[int, ...]) -> Mask:
    mask = np.zeros(shape, dtype=bool)
    for place in places:
        mask[place] = True
    return mask


def test_two_voxels_two_millimetres_apart() -> None:
    # Index 3 and index 5 along the second axis, 1 mm each: 2 mm, both ways.
    here, there = voxels((9, 9, 9), (4, 3, 4)), voxels((9, 9, 9), (4, 5, 4))
    distances = surface_distances(here, there, (7.0, 1.0, 7.0))
    assert distances.to_truth.tolist() == [2.0]
    assert distances.to_prediction.tolist() == [2.0]


def test_each_axis_has_its_own_spacing() -> None:
    # 1 voxel of 3 mm, 2 of 2 mm, 24 of 0.5 mm: 3, 4 and 12 make 13.
    here, there = voxels((9, 9, 30), (2, 2, 2)), voxels((9, 9, 30), (3, 4, 26))
    assert surface_distances(here, there, (3.0, 2.0, 0.5)).to_truth.tolist() == [13.0]


def test_fortran_order_does_not_swap_the_axes() -> None:
    here, there = voxels((9, 9, 30), (2, 2, 2)), voxels((9, 9, 30), (3, 4, 26))
    distances = surface_distances(
        np.asfortranarray(here), np.asfortranarray(there), (3.0, 2.0, 0.5)
    )
    assert distances.to_truth.tolist() == [13.0]


def test_directions_differ_where_one_has_more() -> None:
    # The truth has one more pixel, 3 to the right: the prediction cannot see it, the truth can.
    here, there = voxels((5, 9), (2, 2)), voxels((5, 9), (2, 2), (2, 5))
    distances = surface_distances(here, there, (1.0, 1.0))
    assert distances.to_truth.tolist() == [0.0]
    assert distances.to_prediction.tolist() == [0.0, 3.0]


def test_the_inside_of_a_cube_is_no_surface() -> None:
    cube = np.zeros((7, 7, 7), dtype=bool)
    cube[1:6, 1:6, 1:6] = True
    assert surface(cube).sum() == 5**3 - 3**3


def test_a_voxel_at_the_border_of_the_array_is_surface() -> None:
    # All of a 4 x 4 image: 12 pixels lie at its border, 4 do not.
    assert surface(np.ones((4, 4), dtype=bool)).sum() == 12


def test_a_corner_neighbour_outside_makes_no_surface() -> None:
    mask = np.ones((5, 5), dtype=bool)
    mask[1, 1] = False
    assert not surface(mask)[2, 2]


def test_the_border_of_the_array_is_no_target() -> None:
    # A pixel at the border is 6 from the other surface, however near the border is.
    here, there = voxels((3, 7), (0, 0)), voxels((3, 7), (0, 6))
    assert surface_distances(here, there, (1.0, 1.0)).to_truth.tolist() == [6.0]


@given(MASKS)
def test_surface_is_the_mask_without_its_erosion(mask: Mask) -> None:
    faces = ndimage.generate_binary_structure(mask.ndim, 1)
    assert np.array_equal(surface(mask), mask ^ ndimage.binary_erosion(mask, faces))


@settings(max_examples=50)
@given(st.integers(0, 2**32 - 1), st.tuples(*[st.floats(0.1, 8.0)] * 3))
def test_distances_are_those_of_every_pair_of_surface_voxels(
    seed: int, spacing: tuple[float, float, float]
) -> None:
    generator = np.random.default_rng(seed)
    here, there = generator.random((2, 4, 5, 6)) < 0.2
    here[0, 0, 0] = there[3, 4, 5] = True
    starts, ends = (np.argwhere(surface(mask)) * spacing for mask in (here, there))
    every = np.linalg.norm(starts[:, None] - ends[None], axis=-1)
    distances = surface_distances(here, there, spacing)
    assert distances.to_truth == pytest.approx(every.min(axis=1), rel=1e-5)
    assert distances.to_prediction == pytest.approx(every.min(axis=0), rel=1e-5)


@pytest.mark.parametrize("empty", [0, 1])
def test_an_empty_mask_has_no_distance(empty: int) -> None:
    masks = [np.ones((3, 3), dtype=bool), np.ones((3, 3), dtype=bool)]
    masks[empty][:] = False
    with pytest.raises(ValueError, match="empty mask"):
        surface_distances(masks[0], masks[1], (1.0, 1.0))


def test_shapes_and_spacings_must_fit() -> None:
    with pytest.raises(ValueError, match="differ in shape"):
        surface_distances(np.ones((3, 3), bool), np.ones((3, 4), bool), (1.0, 1.0))
    with pytest.raises(ValueError, match="2 axes with 3 spacings"):
        surface_distances(np.ones((3, 3), bool), np.ones((3, 3), bool), (1.0, 1.0, 1.0))


@pytest.mark.parametrize("shape", [(40, 30), (12, 20, 9)])
@pytest.mark.parametrize("fraction", [0.002, 0.3])
def test_tree_and_map_find_the_same_distances(shape: tuple[int, ...], fraction: float) -> None:
    random = np.random.default_rng(0)
    here, there = random.random((2, *shape)) < fraction
    here.flat[0] = there.flat[-1] = True
    spacing = (3.0, 0.5, 1.7)[: len(shape)]
    by_tree, by_map = (way(here, there, spacing) for way in (_by_tree, _by_map))
    assert len(by_tree) == here.sum()
    np.testing.assert_allclose(by_tree, by_map, rtol=1e-6)


@pytest.mark.parametrize("way", [_by_tree, _by_map])
def test_both_ways_know_the_spacing_of_each_axis(
    way: Callable[[Mask, Mask, Sequence[float]], NDArray[np.float64]],
) -> None:
    here, there = voxels((9, 9, 30), (2, 2, 2)), voxels((9, 9, 30), (3, 4, 26), (8, 8, 0))
    assert way(here, there, (3.0, 2.0, 0.5)).tolist() == [13.0]


def test_smooth_organs_are_searched_and_scattered_voxels_mapped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []
    for name in ("_by_tree", "_by_map"):
        monkeypatch.setattr(module, name, lambda *_, name=name: asked.append(name))
    far = voxels((30, 30, 30), (0, 0, 0), (29, 29, 29))
    surface_distances(far, far, (1.0, 1.0, 1.0))
    noise = np.random.default_rng(0).random((2, 30, 30, 30)) < 0.3
    surface_distances(noise[0], noise[1], (1.0, 1.0, 1.0))
    assert asked == ["_by_tree"] * 2 + ["_by_map"] * 2
