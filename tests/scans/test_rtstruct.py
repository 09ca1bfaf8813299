"""Contours (RTSTRUCT): written and read back voxel by voxel, and read as others draw them."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from pydicom import dcmread
from scans.dicom_samples import AXIAL, OBLIQUE, write_series

from tracoco.errors import UserError
from tracoco.scans import dicom
from tracoco.scans.dicom_seg import MAY_BE_EMPTY
from tracoco.scans.rtstruct import write_structure_set
from tracoco.scans.scan import Structure

STRUCTURES = {
    2: Structure(2, "liver", (1.0, 0.0, 0.0)),
    7: Structure(7, "never"),
    9: Structure(9, "cyst"),
}
SHAPE = (12, 10, 4)


def series(folder: Path, orientation: tuple[float, ...] = AXIAL) -> Path:
    rng = np.random.default_rng(0)
    voxels = rng.integers(0, 100, (SHAPE[2], SHAPE[1], SHAPE[0])).astype(np.int16)
    return write_series(folder, voxels, orientation)


def label() -> NDArray[np.int32]:
    """A ring with something in its hole, voxels at the edge of the scan, and single ones."""
    array = np.zeros(SHAPE, np.int32)
    array[1:8, 1:8, 1] = 2
    array[3:6, 3:6, 1] = 0
    array[4, 4, 1] = 9
    array[0, 0, 0] = array[-1, -1, -1] = 9
    array[2, 2, 2] = array[3, 3, 2] = 2  # they touch at a corner
    return array


@pytest.mark.parametrize("orientation", [AXIAL, OBLIQUE])
def test_what_is_written_is_read_back_voxel_by_voxel(
    tmp_path: Path, orientation: tuple[float, ...]
) -> None:
    folder = series(tmp_path / "case", orientation)
    shape = dicom.read_header(folder).shape
    wanted = label() if shape == SHAPE else label().swapaxes(1, 2)
    write_structure_set(folder / "contours.dcm", wanted, STRUCTURES, folder)
    back = dicom.read_label(folder)
    names = {structure.value: structure.name for structure in back.structures}
    assert names == {1: "liver", 2: "cyst"}
    assert back.structures[0].colour == (1.0, 0.0, 0.0)
    assert np.array_equal(back.array == 1, wanted == 2)
    assert np.array_equal(back.array == 2, wanted == 9)
    assert np.allclose(back.affine, dicom.read_header(folder).affine)
    assert dicom.read_image(folder).array.shape == (1, *shape)


def test_the_object_names_all_structures_and_the_slices(tmp_path: Path) -> None:
    folder = series(tmp_path / "case")
    write_structure_set(tmp_path / "contours.dcm", label(), STRUCTURES, folder)
    written = dcmread(tmp_path / "contours.dcm")
    assert [roi.ROIName for roi in written.StructureSetROISequence] == ["liver", "never", "cyst"]
    assert [len(each.ContourSequence) > 0 for each in written.ROIContourSequence] == [1, 0, 1]
    instances = {dcmread(file).SOPInstanceUID for file in folder.iterdir()}
    frame = written.ReferencedFrameOfReferenceSequence[0]
    referenced = frame.RTReferencedStudySequence[0].RTReferencedSeriesSequence[0]
    assert {each.ReferencedSOPInstanceUID for each in referenced.ContourImageSequence} == instances
    contour = written.ROIContourSequence[0].ContourSequence[0]
    assert contour.ContourImageSequence[0].ReferencedSOPInstanceUID in instances
    assert len(contour.ContourData) == 3 * contour.NumberOfContourPoints


def test_an_anonymised_series_stays_so(tmp_path: Path) -> None:
    folder = series(tmp_path / "case")
    for file in folder.iterdir():
        image = dcmread(file)
        for tag in MAY_BE_EMPTY:
            if tag in image:
                delattr(image, tag)
        image.save_as(file)
    write_structure_set(tmp_path / "contours.dcm", label(), STRUCTURES, folder)
    written = dcmread(tmp_path / "contours.dcm")
    assert all(not written[tag].value for tag in MAY_BE_EMPTY)


def change(folder: Path, what: str) -> None:
    """What other programs write, or should not."""
    path = folder / "contours.dcm"
    written = dcmread(path)
    region = written.ROIContourSequence[0]
    if what == "outline":
        written.RTROIObservationsSequence[0].RTROIInterpretedType = "EXTERNAL"
    for contour in region.ContourSequence:
        points = np.array(contour.ContourData, float).reshape(-1, 3)
        if what == "between":
            points[:, 2] += 1.0  # slices are 2 mm apart
        elif what == "outside":
            points[:, 2] += 100.0
        elif what == "point":
            contour.ContourGeometricType = "POINT"
        contour.ContourData = [f"{value:.3f}" for value in points.ravel()]
    if what == "overlap":
        written.ROIContourSequence[2].ContourSequence = region.ContourSequence
    written.save_as(path)


@pytest.mark.parametrize("what", ["outline", "point"])
def test_the_outline_of_the_body_and_points_are_no_structures(tmp_path: Path, what: str) -> None:
    folder = series(tmp_path / "case")
    write_structure_set(folder / "contours.dcm", label(), STRUCTURES, folder)
    change(folder, what)
    back = dicom.read_label(folder)
    assert [structure.name for structure in back.structures] == ["cyst"]
    assert np.array_equal(back.array == 1, label() == 9)


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("between", "contour of 'liver' between two slices"),
        ("outside", "contour of 'liver' outside of the series"),
        ("overlap", "structures that overlap, 'liver' and 'cyst'"),
    ],
)
def test_contours_that_fit_no_label_map_are_refused(tmp_path: Path, what: str, words: str) -> None:
    folder = series(tmp_path / "case")
    write_structure_set(folder / "contours.dcm", label(), STRUCTURES, folder)
    change(folder, what)
    with pytest.raises(UserError, match=words):
        dicom.read_label(folder)


def test_two_sets_or_no_series_are_refused(tmp_path: Path) -> None:
    folder = series(tmp_path / "case")
    write_structure_set(folder / "contours.dcm", label(), STRUCTURES, folder)
    write_structure_set(tmp_path / "alone" / "contours.dcm", label(), STRUCTURES, folder)
    with pytest.raises(UserError, match=r"has 1 sets of contours \(RTSTRUCT\) and 0 slices"):
        dicom.read_label(tmp_path / "alone")
    write_structure_set(folder / "more.dcm", label(), STRUCTURES, folder)
    with pytest.raises(UserError, match=r"has 2 sets of contours"):
        dicom.read_label(folder)
