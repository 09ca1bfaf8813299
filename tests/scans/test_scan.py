from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracoco.scans.scan import Grid, canonical_geometry, to_canonical, to_grid

ORIENTATIONS = list(product(permutations(range(3)), product((1, -1), repeat=3)))


def turned_grid(order: tuple[int, ...], signs: tuple[int, ...]) -> Grid:
    """A grid of (2, 3, 4) voxels whose own axis i is the canonical axis order[i]."""
    affine = np.zeros((4, 4))
    for axis, (target, sign) in enumerate(zip(order, signs, strict=True)):
        affine[target, axis] = sign * (1 + axis)
    affine[3, 3] = 1
    return Grid((2, 3, 4), affine)


def test_an_axis_that_runs_to_the_left_is_flipped() -> None:
    # Voxel 0 lies furthest right, so canonically it is the last.
    grid = Grid((3, 1, 1), np.diag([-1.0, 1, 1, 1]))
    array = np.array([1, 2, 3]).reshape(3, 1, 1)
    assert to_canonical(array, grid).ravel().tolist() == [3, 2, 1]
    _, affine, _ = canonical_geometry(grid)
    # Index 2 of the file is 2 voxels left of the origin; it is index 0 now.
    assert (affine @ [0, 0, 0, 1]).tolist() == [-2, 0, 0, 1]


def test_axes_are_permuted_together_with_their_spacing() -> None:
    # Own axes: superior (1 mm), right (2 mm), anterior (3 mm).
    grid = turned_grid((2, 0, 1), (1, 1, 1))
    shape, _, spacing = canonical_geometry(grid)
    assert shape == (3, 4, 2)
    assert spacing == (2, 3, 1)
    assert to_canonical(np.zeros((2, 3, 4)), grid).shape == shape


@pytest.mark.parametrize(("order", "signs"), ORIENTATIONS)
def test_every_voxel_stays_where_it_is_in_the_world(
    order: tuple[int, ...], signs: tuple[int, ...]
) -> None:
    grid = turned_grid(order, signs)
    indices = np.indices(grid.shape).astype(float)
    own = np.einsum("ij,jxyz->ixyz", grid.affine[:3, :3], indices)
    canonical_world = to_canonical(own, grid)
    shape, affine, _ = canonical_geometry(grid)
    expected = np.einsum("ij,jxyz->ixyz", affine[:3, :3], np.indices(shape))
    assert np.array_equal(canonical_world, expected + affine[:3, 3, None, None, None])
    assert (np.diag(affine) > 0).all()


@given(st.sampled_from(ORIENTATIONS), st.integers(0, 2**32 - 1))
def test_to_grid_undoes_to_canonical(
    orientation: tuple[tuple[int, ...], tuple[int, ...]], seed: int
) -> None:
    grid = turned_grid(*orientation)
    array = np.random.default_rng(seed).integers(0, 100, grid.shape)
    assert np.array_equal(to_grid(to_canonical(array, grid), grid), array)


def test_leading_axes_are_left_alone() -> None:
    grid = turned_grid((2, 1, 0), (1, -1, 1))
    channels = np.arange(48).reshape(2, 2, 3, 4)
    turned = to_canonical(channels, grid)
    assert np.array_equal(turned[1], to_canonical(channels[1], grid))
    assert turned.flags.c_contiguous


def test_an_array_of_another_shape_does_not_lie_on_the_grid() -> None:
    with pytest.raises(ValueError, match=r"\(2, 3, 5\) does not lie on a grid of \(2, 3, 4\)"):
        to_grid(np.zeros((2, 3, 5)), turned_grid((0, 1, 2), (1, 1, 1)))
