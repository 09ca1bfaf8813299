"""Images of other libraries lie where their files would."""

from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
import SimpleITK

from tracoco.errors import UserError
from tracoco.scans.in_memory import as_scan
from tracoco.scans.reader import read_image


@pytest.fixture
def oblique(tmp_path: Path) -> Path:
    """A scan with axes in another order, turned by 10 degrees, and no voxel like another."""
    array = np.arange(5 * 6 * 7, dtype=np.int16).reshape(5, 6, 7)
    turn = np.deg2rad(10)
    axes = np.array([[0, -np.sin(turn), np.cos(turn)], [-1, 0, 0], [0, np.cos(turn), np.sin(turn)]])
    affine = np.eye(4)
    affine[:3, :3] = axes * [1.0, 2.0, 3.0]
    affine[:3, 3] = [4, -5, 6]
    path = tmp_path / "scan.nii.gz"
    nib.save(nib.Nifti1Image(array, affine), path)
    return path


@pytest.mark.parametrize("library", ["nibabel", "SimpleITK"])
def test_an_image_in_memory_is_the_scan_of_its_file(oblique: Path, library: str) -> None:
    from_file = read_image(oblique)
    image = nib.load(oblique) if library == "nibabel" else SimpleITK.ReadImage(str(oblique))
    scan = as_scan(image)
    np.testing.assert_array_equal(scan.array, from_file.array)
    np.testing.assert_allclose(scan.affine, from_file.affine, atol=1e-4)
    np.testing.assert_allclose(scan.spacing_mm, from_file.spacing_mm, atol=1e-5)
    np.testing.assert_allclose(scan.grid.affine, from_file.grid.affine, atol=1e-4)
    assert scan.has_geometry


def test_channels_and_units_are_understood() -> None:
    array = np.stack([np.zeros((3, 4, 5)), np.ones((3, 4, 5))], axis=-1).astype(np.float32)
    image = nib.Nifti1Image(array, np.diag([0.001, 0.001, 0.002, 1]))
    image.header.set_xyzt_units("meter")
    scan = as_scan(image)
    assert scan.array.shape == (2, 3, 4, 5)
    assert scan.array.mean(axis=(1, 2, 3)).tolist() == [0, 1]
    np.testing.assert_allclose(scan.spacing_mm, (1, 1, 2), rtol=1e-5)
    vectors = SimpleITK.GetImageFromArray(array.transpose(2, 1, 0, 3), isVector=True)
    np.testing.assert_array_equal(as_scan(vectors).array[1], 1)


def test_what_is_no_scan_is_refused() -> None:
    with pytest.raises(UserError, match="a list is no scan; give a path"):
        as_scan([1, 2])
    with pytest.raises(UserError, match="2 dimensions"):
        as_scan(SimpleITK.Image(4, 4, SimpleITK.sitkInt16))
