"""Every file of the collection of formats loads as stated, or is refused as stated."""

from itertools import permutations, product
from pathlib import Path

import nibabel
import numpy as np
import pytest
from shared_data import shared_data

from tracoco.errors import UserError
from tracoco.scans import reader
from tracoco.scans.scan import to_grid

LOADED = {
    "ct_hu/example_ct_sm.nii.gz": ((122, 101, 30), (3, 3, 3), "RAS"),
    "dicom/mr_crop_40": ((34, 50, 40), (1, 1, 1), "LPS"),
    "nifti_odd/FLAIR.nii.gz": ((124, 160, 140), (1, 1, 1), "RAS"),
    "nifti_odd/FLAIR.nrrd": ((124, 160, 140), (1, 1, 1), "RAS"),
    "nifti_odd/anatomical.nii": ((33, 41, 25), (2, 2, 2), "LAS"),
    "nifti_odd/labels256.nii.gz": ((256, 256, 256), (1, 1, 1), "LIA"),
    "nifti_odd/mha.mha": ((64, 64, 37), (3.4375, 3.4375, 3.8), "LAS"),
    "nifti_odd/minimal.nii.gz": ((64, 64, 10), (3, 3, 3), "LAS"),
    "nifti_odd/ras.hdr": ((62, 41, 34), (2.3852, 2.3898, 2.3665), "RAS"),
    "nifti_odd/wm.mgz": ((256, 256, 256), (1, 1, 1), "LIA"),
    "spleen_ct/sub-spleen2/ct/sub-spleen2_ct.nii.gz": ((164, 166, 26), (0.7949, 0.7949, 5), "RAS"),
}
"""Shape and spacing in canonical order, and the directions of the file's own axes."""
REFUSED = {
    "dicom/ct_variable_gaps.zip": "unevenly spaced slices",
    "dicom/mr_4d.zip": "150 images at 15 positions, 10 at each",
    "dicom/mr_missing_slices": "lacks 11 slices",
    "nifti_odd/complex.nii.gz": "complex voxels",
    "nifti_odd/ct_perfusion.nii.gz": "RGB voxels",
    "nifti_odd/example4d.nii.gz": "time series of 2 volumes",
    "nifti_odd/example_nifti2.nii.gz": "time series of 2 volumes",
    "nifti_odd/nifti1.hdr": r"half of a pair, and .*nifti1\.img does not exist",
    "nifti_odd/resampled_anat_moved.nii": "153 NaN or infinite voxels",
    "nifti_odd/shear.nii.gz": "sheared affine",
}
UNPLACED = {"nifti_odd/minimal.nii.gz"}
SPACE = ["".join(o) for p in permutations(("RL", "AP", "SI")) for o in product(*p)]


def test_the_table_names_every_file() -> None:
    root = shared_data("formats")
    folders = [root / name for name in ("ct_hu", "dicom", "nifti_odd", "spleen_ct/sub-spleen2/ct")]
    found = {str(p.relative_to(root)) for folder in folders for p in reader.scans_in(folder)}
    assert found == LOADED.keys() | REFUSED.keys()
    assert {p.name for p in reader.scans_in(root / "nifti_space")} == {f"{o}.nii.gz" for o in SPACE}


@pytest.mark.parametrize("name", LOADED)
def test_a_sound_file_loads_where_it_lies(name: str) -> None:
    path = shared_data("formats", name)
    shape, spacing, axes = LOADED[name]
    about, scan = reader.read_grid(path), reader.read_image(path)
    assert about.shape == scan.array.shape[1:] == shape
    assert scan.spacing_mm == pytest.approx(spacing, abs=1e-4)
    assert "".join(nibabel.aff2axcodes(scan.grid.affine)) == axes
    assert scan.has_geometry == (name not in UNPLACED)


@pytest.mark.parametrize("name", REFUSED)
def test_an_unusable_file_is_refused_by_name(name: str) -> None:
    path = shared_data("formats", name)
    with pytest.raises(UserError, match=REFUSED[name]) as refused:
        reader.read_image(path)
    assert str(path) in str(refused.value)


def test_one_volume_as_nifti_and_as_nrrd_is_the_same_scan() -> None:
    root = shared_data("formats", "nifti_odd")
    nifti, nrrd = (reader.read_image(root / f"FLAIR{s}") for s in (".nii.gz", ".nrrd"))
    assert np.array_equal(nifti.array, nrrd.array)
    assert np.allclose(nifti.affine, nrrd.affine, atol=1e-4)


@pytest.mark.parametrize("axes", SPACE)
def test_48_orientations_are_one_scan_and_take_their_labels_back(axes: str, tmp_path: Path) -> None:
    root = shared_data("formats", "nifti_space")
    known, scan = reader.read_image(root / "RAS.nii.gz"), reader.read_image(root / f"{axes}.nii.gz")
    assert "".join(nibabel.aff2axcodes(scan.grid.affine)) == axes
    assert np.array_equal(scan.array, known.array)
    assert np.allclose(scan.affine, known.affine, atol=1e-3)

    bright = (scan.array[0] > 100).astype(np.uint8)
    reader.write_label(tmp_path / "label.nii.gz", bright, scan.grid)
    source, result = (nibabel.load(p) for p in (root / f"{axes}.nii.gz", tmp_path / "label.nii.gz"))
    assert np.array_equal(result.affine, source.affine)
    assert np.array_equal(np.asarray(result.dataobj), np.asarray(source.dataobj) > 100)
    assert np.array_equal(to_grid(bright, scan.grid), np.asarray(result.dataobj))


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("la/full/06SR5RBREL16DQ6M8LWS/mri_norm2.h5", (183, 140, 88)),
        ("la/half/06SR5RBREL16DQ6M8LWS/mri_norm2.h5", (92, 70, 44)),
        ("acdc/full/data/patient099_frame01.h5", (16, 224, 154)),
        ("acdc/full/data/slices/patient099_frame01_slice_1.h5", (224, 154, 1)),
        ("acdc/half/data/patient002_frame01.h5", (10, 128, 116)),
        ("brats19/half/data/BraTS19_2013_15_1.h5", (65, 83, 65)),
    ],
)
def test_the_communitys_files_are_image_and_label(name: str, shape: tuple[int, ...]) -> None:
    path = shared_data(*name.split("/"))
    image, label = reader.read_image(path), reader.read_label(path)
    assert image.array.shape[1:] == label.array.shape == shape
    assert reader.has_label(path)
    assert not image.has_geometry
    assert label.array.max() >= 1
