"""DICOM segmentations: out by highdicom, read back by highdicom, by pydicom, and by us."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from pydicom import dcmread
from scans.dicom_samples import (
    AXIAL,
    OBLIQUE,
    VOXELS,
    make_frames,
    pack,
    save,
    write_series,
)

from tracoco.errors import UserError
from tracoco.scans import dicom, dicom_seg
from tracoco.scans.scan import to_grid

highdicom = pytest.importorskip("highdicom")
NAMES = {2: "liver", 500: "tumour", 7: "never there"}


def make_label(shape: tuple[int, ...]) -> NDArray[np.int32]:
    """Two structures, one of them in a single slice; most slices are empty of it."""
    label = np.zeros(shape, np.int32)
    label[1:3, 1:, 1:] = 2
    label[0, 0, -1] = 500
    return label


@pytest.mark.parametrize("orientation", [AXIAL, OBLIQUE, (-1.0, 0.0, 0.0, 0.0, 1.0, 0.0)])
def test_a_label_comes_back_at_the_same_places(
    tmp_path: Path, orientation: tuple[float, ...]
) -> None:
    folder = write_series(
        tmp_path / "case", orientation=orientation, name=lambda index: f"{9 - index}"
    )
    scan = dicom.read_image(folder)
    label = make_label(scan.array.shape[1:])
    dicom_seg.write_segmentation(folder / "seg.dcm", label, NAMES, folder)

    back = dicom.read_label(folder)
    assert np.array_equal(back.array, label)
    assert np.allclose(back.affine, scan.affine)

    theirs = highdicom.seg.segread(folder / "seg.dcm").get_volume(combine_segments=True)
    lps = np.argwhere(theirs.array > 0) @ theirs.affine[:3, :3].T + theirs.affine[:3, 3]
    ours = np.argwhere(label > 0) @ scan.affine[:3, :3].T + scan.affine[:3, 3]
    assert sorted_points(lps * [-1, -1, 1]) == pytest.approx(sorted_points(ours), abs=1e-6)


def sorted_points(points: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.array(sorted(np.round(points, 6).tolist()))


def test_the_object_names_its_segments_and_refers_to_its_slices(tmp_path: Path) -> None:
    folder = write_series(tmp_path / "case")
    label = make_label((5, 3, 4))
    dicom_seg.write_segmentation(tmp_path / "out" / "seg.dcm", label, NAMES, folder)
    written = dcmread(tmp_path / "out" / "seg.dcm")
    segments = [(s.SegmentNumber, s.SegmentLabel) for s in written.SegmentSequence]
    assert segments == [(1, "liver"), (2, "never there"), (3, "tumour")]
    referenced = {
        item.ReferencedSOPInstanceUID
        for series in written.ReferencedSeriesSequence
        for item in series.ReferencedInstanceSequence
    }
    assert referenced == {dcmread(folder / f"0{index}.dcm").SOPInstanceUID for index in range(4)}
    assert written.StudyInstanceUID == "1.2.3.5"
    assert list((tmp_path / "out").iterdir()) == [tmp_path / "out" / "seg.dcm"]


def test_frames_of_one_file_are_referred_to_in_their_order(tmp_path: Path) -> None:
    path = save(make_frames(), tmp_path / "case" / "frames")
    label = make_label(dicom.read_header(path).shape)
    dicom_seg.write_segmentation(tmp_path / "case" / "seg.dcm", label, NAMES, path)
    assert np.array_equal(dicom.read_label(tmp_path / "case").array, label)


def test_a_zip_with_series_and_segmentation_is_image_and_label(tmp_path: Path) -> None:
    folder = write_series(tmp_path / "case")
    label = make_label((5, 3, 4))
    dicom_seg.write_segmentation(folder / "seg.dcm", label, NAMES, folder)
    archive = pack(folder, tmp_path / "case.zip")
    assert np.array_equal(dicom.read_label(archive).array, label)
    assert dicom.read_image(archive).array.shape == (1, 5, 3, 4)


def test_alone_it_is_read_where_its_frames_fill_a_grid(tmp_path: Path) -> None:
    folder = write_series(tmp_path / "case")
    label = np.zeros((5, 3, 4), np.uint8)
    label[2, 1, :] = 2
    path = tmp_path / "seg.dcm"
    dicom_seg.write_segmentation(path, label, NAMES, folder)
    assert np.array_equal(dicom.read_label(path).array, label)
    assert np.allclose(dicom.read_header(path).affine, dicom.read_header(folder).affine)


def test_alone_with_empty_slices_left_out_it_asks_for_the_series(tmp_path: Path) -> None:
    label = np.zeros((5, 3, 4), np.uint8)
    label[:, :, [0, 1, 3]] = 2
    path = tmp_path / "seg.dcm"
    dicom_seg.write_segmentation(path, label, NAMES, write_series(tmp_path / "case"))
    with pytest.raises(UserError, match=r"fill no grid.* with the series that it was drawn on"):
        dicom.read_label(path)


def test_beside_another_series_it_is_refused(tmp_path: Path) -> None:
    label = make_label((5, 3, 4))
    other = write_series(tmp_path / "other", orientation=OBLIQUE)
    dicom_seg.write_segmentation(other / "seg", label, NAMES, write_series(tmp_path / "case"))
    with pytest.raises(UserError, match="does not lie on a slice of the series beside it"):
        dicom.read_label(other)


def test_an_empty_label_can_be_written(tmp_path: Path) -> None:
    folder = write_series(tmp_path / "case")
    dicom_seg.write_segmentation(folder / "seg", np.zeros((5, 3, 4), np.uint8), NAMES, folder)
    assert not dicom.read_label(folder).array.any()


def overlapping(folder: Path, kind: str = "BINARY") -> None:
    """The same voxels in two segments, as other programs write them."""
    write_series(folder)
    dicom_seg.write_segmentation(folder / "seg", np.full((5, 3, 4), 2), NAMES, folder)
    seg = dcmread(folder / "seg")
    groups = list(seg.PerFrameFunctionalGroupsSequence)
    again = [dcmread(folder / "seg").PerFrameFunctionalGroupsSequence[0]]
    again[0].SegmentIdentificationSequence[0].ReferencedSegmentNumber = 3
    seg.PerFrameFunctionalGroupsSequence = groups + again
    seg.NumberOfFrames = len(groups) + 1
    seg.PixelData = b"\xff" * 10
    seg.SegmentationType = kind
    seg.save_as(folder / "seg")


def test_structures_that_overlap_are_no_label_map(tmp_path: Path) -> None:
    overlapping(tmp_path)
    with pytest.raises(UserError, match=r"overlap, e\.g\. in 15 voxels"):
        dicom.read_label(tmp_path)


def test_fractions_are_no_label_map(tmp_path: Path) -> None:
    overlapping(tmp_path, "FRACTIONAL")
    with pytest.raises(UserError, match="FRACTIONAL segmentation"):
        dicom.read_label(tmp_path)


def test_a_series_is_no_label(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has 0 DICOM segmentations; a label is one, a set"):
        dicom.read_label(write_series(tmp_path))


def test_a_label_map_object_is_read_too(tmp_path: Path) -> None:
    folder = write_series(tmp_path)
    label = make_label((5, 3, 4))
    stack, images = dicom_seg.series_images(folder)
    numbers = dicom_seg._segment_numbers(to_grid(label, stack.grid), [2, 500], stack)
    highdicom.seg.Segmentation(
        source_images=images,
        pixel_array=numbers,
        segmentation_type="LABELMAP",
        segment_descriptions=[
            dicom_seg._describe(n, v, "x") for n, v in enumerate((2, 500), start=1)
        ],
        series_instance_uid="1.2.3",
        series_number=1,
        sop_instance_uid="1.2.4",
        instance_number=1,
        manufacturer="x",
        manufacturer_model_name="x",
        software_versions="x",
        device_serial_number="x",
    ).save_as(folder / "seg")
    assert np.array_equal(dicom.read_label(folder).array, label)


def test_a_source_without_a_series_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has no DICOM image in it"):
        dicom_seg.write_segmentation(tmp_path / "x", VOXELS, NAMES, tmp_path)


def test_without_highdicom_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dicom_seg, "find_spec", lambda _: None)
    with pytest.raises(UserError, match=r"pip install 'tracoco\[dicom\]'"):
        dicom_seg.write_segmentation(tmp_path / "x", VOXELS, NAMES, tmp_path)
    assert not (tmp_path / "x").exists()


def test_an_anonymised_series_has_empty_tags_in_its_object(tmp_path: Path) -> None:
    folder = write_series(tmp_path / "case")
    for file in folder.iterdir():
        image = dcmread(file)
        for tag in dicom_seg.MAY_BE_EMPTY:
            if tag in image:
                delattr(image, tag)
        image.save_as(file)
    dicom_seg.check_series(folder, NAMES)
    dicom_seg.write_segmentation(tmp_path / "seg.dcm", make_label((5, 3, 4)), NAMES, folder)
    written = dcmread(tmp_path / "seg.dcm")
    assert all(not written[tag].value for tag in dicom_seg.MAY_BE_EMPTY)
    assert all("StudyDate" not in dcmread(file) for file in folder.iterdir())  # as it was


def test_a_series_without_what_cannot_be_empty_is_refused_before_any_work(tmp_path: Path) -> None:
    folder = write_series(tmp_path / "case")
    for file in folder.iterdir():
        image = dcmread(file)
        del image.StudyInstanceUID
        image.save_as(file)
    with pytest.raises(UserError, match="lacks a tag that a DICOM segmentation of it must repeat"):
        dicom_seg.check_series(folder, NAMES)
