from pathlib import Path

import numpy as np
import pytest

from tracoco.errors import UserError
from tracoco.scans import stored
from tracoco.scans.scan import Affine, Grid, ScanHeader, Shape, check_same_grid

FILE = Path("a.nii.gz")


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((2, 3, 4), ((2, 3, 4), 1)),
        ((2, 3, 4, 5), ((2, 3, 4), 5)),
        ((2, 3, 4, 1, 1), ((2, 3, 4), 1)),
        ((2, 3, 1), ((2, 3, 1), 1)),
    ],
)
def test_channels_are_the_fourth_axis(
    shape: tuple[int, ...], expected: tuple[tuple[int, int, int], int]
) -> None:
    assert stored.split_channels(shape, FILE) == expected


@pytest.mark.parametrize("shape", [(4, 4), (4, 4, 4, 1, 3), (4, 0, 4)])
def test_what_is_not_3d_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(UserError, match=r"a\.nii\.gz has the shape .*a scan is 3D"):
        stored.split_channels(shape, FILE)


def test_a_turned_grid_is_fine() -> None:
    turn = np.deg2rad(30)
    affine = np.diag([0.5, 2, 5, 1]).astype(float)
    affine[:2, :2] = np.array(
        [[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]]
    ) @ np.diag([0.5, 2])
    stored.check_affine(affine, FILE)
    sheared = affine.copy()
    sheared[:3, 2] += affine[:3, 0]
    with pytest.raises(UserError, match="sheared affine"):
        stored.check_affine(sheared, FILE)


@pytest.mark.parametrize("side", [0.0, np.nan, np.inf])
def test_a_voxel_without_size_is_refused(side: float) -> None:
    with pytest.raises(UserError, match="singular affine"):
        stored.check_affine(np.diag([1, side, 1, 1]), FILE)


def test_two_equal_axes_are_singular() -> None:
    affine = np.eye(4)
    affine[:3, 1] = affine[:3, 0]
    with pytest.raises(UserError, match="singular affine"):
        stored.check_affine(affine, FILE)


@pytest.mark.parametrize(("degrees", "refused"), [(0.3, False), (2.0, True)])
def test_shear_is_refused_and_rounding_is_not(degrees: float, refused: bool) -> None:  # noqa: FBT001  # a case
    affine = np.eye(4)
    affine[0, 2] = np.tan(np.deg2rad(degrees))  # as by a gantry that is tilted so far
    if refused:
        with pytest.raises(UserError, match="sheared affine"):
            stored.check_affine(affine, FILE)
    else:
        stored.check_affine(affine, FILE)


def test_small_voxels_are_not_singular() -> None:
    small = np.diag([1e-4, 1e-4, 1e-4, 1])
    stored.check_affine(small, FILE)
    small[0, 0] = 0
    with pytest.raises(UserError, match="singular affine"):
        stored.check_affine(small, FILE)


def test_nan_and_infinite_voxels_are_counted() -> None:
    with pytest.raises(UserError, match="has 2 NaN or infinite voxels"):
        stored.check_finite(np.array([0, np.nan, np.inf]), FILE)


def test_floats_that_are_integers_are_labels() -> None:
    integers = stored.as_integers(np.array([0.0, 255.0, -1.0]), FILE)
    assert integers.dtype.kind == "i"
    assert integers.tolist() == [0, 255, -1]


def test_integers_get_the_byte_order_of_the_machine() -> None:
    integers = stored.as_integers(np.array([0, 258], dtype=">i2"), FILE)
    assert integers.tolist() == [0, 258]
    assert integers.dtype.isnative


def test_values_between_integers_are_named() -> None:
    with pytest.raises(UserError, match=r"2 voxels have values between integers \(0\.25, 0\.5\)"):
        stored.as_integers(np.array([0, 0.5, 0.25, 1]), FILE)


def header(shape: Shape, affine: Affine, name: str) -> ScanHeader:
    return ScanHeader(shape, affine, (1, 1, 1), 1, Grid(shape, affine), Path(name))


def test_channels_lie_on_the_same_voxels() -> None:
    first = header((2, 3, 4), np.eye(4), "a.nii")
    moved = np.eye(4)
    moved[0, 3] = 0.05
    check_same_grid(first, header((2, 3, 4), moved, "b.nii"))
    moved[0, 3] = 0.5
    with pytest.raises(UserError, match=r"a\.nii and b\.nii .*0\.5 voxels apart"):
        check_same_grid(first, header((2, 3, 4), moved, "b.nii"))
    with pytest.raises(UserError, match=r"shapes \(2, 3, 4\) and \(2, 3, 5\)"):
        check_same_grid(first, header((2, 3, 5), np.eye(4), "b.nii"))


@pytest.mark.parametrize("dtype", ["O", "U4", "S4", "V4", "M8[s]"])
def test_what_is_no_number_is_refused(dtype: str) -> None:
    with pytest.raises(UserError, match="text or Python objects, which are never loaded"):
        stored.check_voxel_type(np.dtype(dtype), FILE)
