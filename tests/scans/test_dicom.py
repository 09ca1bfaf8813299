"""Series that are read: each pixel where its slice says, whatever the files are called."""

import os
import zipfile
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
from pydicom import dcmread
from pydicom.dataset import Dataset
from pydicom.uid import JPEGLosslessSV1, RLELossless
from scans.dicom_samples import (
    AXIAL,
    OBLIQUE,
    ORIGIN,
    PATIENT,
    VOXELS,
    assert_placed,
    make_frames,
    make_slice,
    pack,
    position,
    save,
    write_series,
)

from tracoco.errors import UserError
from tracoco.scans import dicom, dicom_files, nifti

SHARED = Path(os.environ.get("TRACOCO_DATA", "TRACOCO_DATA is not set"))
REAL = SHARED / "formats" / "dicom"


@pytest.mark.parametrize(
    "orientation",
    [
        AXIAL,
        OBLIQUE,
        (-1.0, 0.0, 0.0, 0.0, 1.0, 0.0),
        (1.0, 0.0, 0.0, 0.0, -1.0, 0.0),
        (0.0, 1.0, 0.0, 0.0, 0.0, -1.0),
        (0.0, 0.0, -1.0, -1.0, 0.0, 0.0),
    ],
)
def test_each_pixel_lies_where_its_slice_says(
    tmp_path: Path, orientation: tuple[float, ...]
) -> None:
    scan = dicom.read_image(write_series(tmp_path, orientation=orientation))
    assert scan.array.dtype == np.float32
    assert_placed(scan, orientation=orientation)


def test_the_axes_are_canonical_and_the_distance_is_measured(tmp_path: Path) -> None:
    about = dicom.read_header(write_series(tmp_path))
    assert about.shape == (5, 3, 4)
    assert about.channels == 1
    assert about.spacing_mm == pytest.approx((0.75, 0.5, 2.0))  # and not the thickness, 3
    # The first column is the rightmost: x = -(-10 + 4 * 0.75); the last row the hindmost.
    assert about.affine[:3, 3] == pytest.approx([7.0, -21.0, 5.0])
    assert np.all(np.diag(about.affine) > 0)


def test_neither_file_names_nor_instance_numbers_order_the_slices(tmp_path: Path) -> None:
    def number_backwards(index: int, slice_: Dataset) -> None:
        slice_.InstanceNumber = (3 * index) % 4

    folder = write_series(
        tmp_path, change=number_backwards, name=lambda index: f"part{index % 2}/{9 - index}"
    )
    assert_placed(dicom.read_image(folder))


def test_other_files_between_the_slices_are_passed_over(tmp_path: Path) -> None:
    folder = write_series(tmp_path, name=lambda index: f"a/IM{index}")
    (folder / "notes.txt").write_text("x" * 200)
    (folder / "a" / "._IM0.dcm").write_bytes(b"another program's")
    document = make_slice(VOXELS[0], ORIGIN)
    document.SOPClassUID = "1.2.840.10008.5.1.4.1.1.104.1"  # a PDF
    document.file_meta.MediaStorageSOPClassUID = document.SOPClassUID
    for keyword in ("Rows", "Columns", "PixelData"):
        delattr(document, keyword)
    save(document, folder / "000-doc.dcm")
    assert_placed(dicom.read_image(folder))


def test_slope_and_intercept_are_those_of_each_slice(tmp_path: Path) -> None:
    def rescale(index: int, slice_: Dataset) -> None:
        slice_.RescaleSlope, slice_.RescaleIntercept = index + 1, -1024

    scan = dicom.read_image(write_series(tmp_path, change=rescale))
    wanted = VOXELS * np.arange(1, 5).reshape(4, 1, 1) - 1024
    assert_placed(scan, wanted)


@pytest.mark.parametrize("photometric", ["MONOCHROME1", "MONOCHROME2"])
def test_unsigned_numbers_stay_as_they_are_however_they_are_shown(
    tmp_path: Path, photometric: str
) -> None:
    def unsigned(_: int, slice_: Dataset) -> None:
        slice_.PixelRepresentation, slice_.PhotometricInterpretation = 0, photometric

    large = (VOXELS.astype(np.int32) + 65000 - VOXELS.max()).astype(np.uint16)
    scan = dicom.read_image(write_series(tmp_path, large.view(np.int16), change=unsigned))
    assert scan.array.max() == 65000


def test_frames_of_one_file_are_placed_by_their_own_positions(tmp_path: Path) -> None:
    scan = dicom.read_image(save(make_frames(), tmp_path / "enhanced"))
    assert_placed(scan, 2 * VOXELS + np.arange(4).reshape(4, 1, 1))


def test_a_single_slice_is_as_deep_as_it_is_thick(tmp_path: Path) -> None:
    scan = dicom.read_image(write_series(tmp_path, VOXELS[:1]))
    assert scan.array.shape == (1, 5, 3, 1)
    assert scan.spacing_mm == pytest.approx((0.75, 0.5, 3.0))
    assert_placed(scan, VOXELS[:1])


def test_rounded_positions_are_no_uneven_slices(tmp_path: Path) -> None:
    def round_off(index: int, slice_: Dataset) -> None:
        slice_.ImagePositionPatient = [-10, 20, round(0.625 * index, 1)]

    voxels = np.zeros((30, 2, 2), np.int16)
    about = dicom.read_header(write_series(tmp_path, voxels, change=round_off))
    assert about.spacing_mm[2] == pytest.approx(0.625, abs=0.002)


def test_a_zip_is_read_as_the_folder_that_was_packed(tmp_path: Path) -> None:
    folder = write_series(tmp_path / "series", name=lambda index: f"b{index % 2}/IM{index}")
    archive = pack(folder, tmp_path / "scan.ZIP")
    assert dicom.is_series(archive)
    assert_placed(dicom.read_image(archive))
    assert dicom.read_header(archive).shape == (5, 3, 4)


@pytest.mark.parametrize("place", ["../../", "/", "C:\\", "a/../../b/"])
def test_names_in_a_zip_lead_nowhere(tmp_path: Path, place: str) -> None:
    folder = write_series(tmp_path / "deep" / "er" / "series")
    archive = pack(folder, tmp_path / "deep" / "er" / "scan.zip", place)
    before = sorted(tmp_path.rglob("*"))
    assert_placed(dicom.read_image(archive))
    assert sorted(tmp_path.rglob("*")) == before


def test_a_zip_in_a_zip_is_refused(tmp_path: Path) -> None:
    (tmp_path / "both").mkdir()
    inner = pack(write_series(tmp_path / "series"), tmp_path / "both" / "inner")
    with pytest.raises(UserError, match=r"outer\.zip has another zip in it"):
        dicom.read_image(pack(inner.parent, tmp_path / "outer.zip", ""))


def test_a_zip_that_would_fill_the_memory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = pack(write_series(tmp_path / "series"), tmp_path / "scan.zip")
    monkeypatch.setattr(dicom_files, "UNPACKED_LIMIT", 1000)
    with pytest.raises(UserError, match=r"scan\.zip holds .* GiB, more than .* unpack it"):
        dicom.read_header(archive)


def test_a_damaged_zip_is_named(tmp_path: Path) -> None:
    (tmp_path / "scan.zip").write_bytes(b"PK\x03\x04 and no more")
    assert dicom.is_series(tmp_path / "scan.zip")  # so that reading it tells what is wrong
    with pytest.raises(UserError, match=r"scan\.zip cannot be opened as a zip"):
        dicom.read_image(tmp_path / "scan.zip")


def test_slices_that_the_list_of_a_zip_swallows_are_missed(tmp_path: Path) -> None:
    archive = pack(write_series(tmp_path / "series"), tmp_path / "scan.zip")
    files = len(zipfile.ZipFile(archive).infolist())
    content = bytearray(archive.read_bytes())
    first = content.index(b"PK\x01\x02")
    content[first + 32 : first + 34] = b"\x7f\x7f"  # length of its comment
    archive.write_bytes(content)
    assert len(zipfile.ZipFile(archive).infolist()) == 1
    with pytest.raises(UserError, match=f"its list has 1 files, and its end counts {files}"):
        dicom.read_image(archive)


@pytest.mark.parametrize(("at", "byte"), [(0, b"."), (-1, b"/")])
def test_a_damaged_name_hides_no_slice(tmp_path: Path, at: int, byte: bytes) -> None:
    archive = pack(write_series(tmp_path / "series"), tmp_path / "scan.zip")
    with zipfile.ZipFile(archive) as packed:
        name = packed.infolist()[-1].filename.encode()
    content = bytearray(archive.read_bytes())
    start = content.rindex(name)  # in the list of files, behind the slices
    content[range(start, start + len(name))[at]] = byte[0]
    archive.write_bytes(content)
    with pytest.raises(UserError, match=r"scan\.zip: .* cannot be read"):
        dicom.read_image(archive)


def test_a_changed_byte_in_a_zip_is_noticed(tmp_path: Path) -> None:
    archive = tmp_path / "scan.zip"
    folder = write_series(tmp_path / "series", VOXELS[:1])
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as packed:
        packed.write(folder / "00.dcm", "00.dcm")
    content = bytearray(archive.read_bytes())
    content[content.index(VOXELS[0].tobytes())] ^= 1
    archive.write_bytes(content)
    with pytest.raises(UserError, match=r"scan\.zip: 00\.dcm cannot be read"):
        dicom.read_image(archive)


def test_the_header_is_read_without_unpacking_a_pixel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> NoReturn:
        raise AssertionError("a pixel was unpacked")

    folder = write_series(tmp_path)
    monkeypatch.setattr("tracoco.scans.dicom_voxels.pixel_array", fail)
    assert dicom.read_header(folder).shape == (5, 3, 4)
    with pytest.raises(AssertionError, match="unpacked"):
        dicom.read_image(folder)


def test_compressed_slices_are_unpacked(tmp_path: Path) -> None:
    folder = write_series(tmp_path, change=lambda _, slice_: slice_.compress(RLELossless))
    assert_placed(dicom.read_image(folder))


@pytest.mark.parametrize("process", ["JPEGLosslessProcess14_1", "JPEGLosslessProcess14"])
def test_series_packed_as_lossless_jpeg_are_unpacked(tmp_path: Path, process: str) -> None:
    gdcm = pytest.importorskip("gdcm")
    folder = write_series(tmp_path)
    for file in folder.iterdir():
        reader = gdcm.ImageReader()
        reader.SetFileName(str(file))
        assert reader.Read()
        change = gdcm.ImageChangeTransferSyntax()
        change.SetTransferSyntax(gdcm.TransferSyntax(getattr(gdcm.TransferSyntax, process)))
        change.SetInput(reader.GetImage())
        assert change.Change()
        writer = gdcm.ImageWriter()
        writer.SetFileName(str(file))
        writer.SetFile(reader.GetFile())
        writer.SetImage(change.GetOutput())
        assert writer.Write()
        assert dcmread(file).file_meta.TransferSyntaxUID.is_compressed
    assert_placed(dicom.read_image(folder))


def test_compression_that_cannot_be_unpacked_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def claim(_: int, slice_: Dataset) -> None:
        slice_.file_meta.TransferSyntaxUID = JPEGLosslessSV1
        slice_["PixelData"].VR = "OB"
        slice_["PixelData"].is_undefined_length = True
        slice_.PixelData = (
            b"\xfe\xff\x00\xe0\x00\x00\x00\x00\xfe\xff\x00\xe0\x02\x00\x00\x00\xff\xd8"
        )

    folder = write_series(tmp_path, change=claim)
    monkeypatch.setattr("pydicom.pixels.decoders.base.Decoder.is_available", False)
    with pytest.raises(UserError, match=r"JPEG Lossless.*pip install 'tracoco.dicom.'.*dcm2niix"):
        dicom.read_header(folder)


def test_a_folder_is_a_series_if_a_dicom_file_lies_in_or_below_it(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "scan.nii.gz").write_bytes(b"x" * 500)
    assert not dicom.is_series(tmp_path)
    assert not dicom.is_series(tmp_path / "scan.nii.gz")
    save(make_slice(VOXELS[0], position(0)), tmp_path / "a" / "b" / "IM1")
    assert dicom.is_series(tmp_path)
    assert dicom.is_series(tmp_path / "a" / "b" / "IM1")
    assert not dicom.is_series(tmp_path / "empty")
    assert not dicom.is_series(tmp_path / "absent")


def test_nothing_of_the_patient_goes_into_a_result(tmp_path: Path) -> None:
    folder = write_series(tmp_path / "series")
    grid = dicom.read_image(folder).grid
    nifti.write_label(tmp_path / "label.nii", np.ones((5, 3, 4), np.uint8), grid)
    content = (tmp_path / "label.nii").read_bytes()
    assert PATIENT.encode() not in content + grid.header
    assert b"4711" not in content + grid.header


@pytest.mark.skipif(not REAL.is_dir(), reason="the real scans are not there")
@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("mr_missing_slices", r"lacks 11 slices: 36 slices lie 3\.00 mm apart but for 7 gaps"),
        ("mr_4d.zip", "150 images at 15 positions, 10 at each"),
        ("ct_variable_gaps.zip", r"unevenly spaced .* 28 slices lie 1\.08 to 7\.00 mm apart"),
    ],
)
def test_real_series_that_others_place_wrongly_are_refused(name: str, problem: str) -> None:
    for read in (dicom.read_header, dicom.read_image):
        with pytest.raises(UserError, match=f"{name} .*{problem}"):
            read(REAL / name)


@pytest.mark.skipif(not REAL.is_dir(), reason="the real scans are not there")
def test_a_real_series_lies_where_another_reader_puts_it() -> None:
    sitk = pytest.importorskip("SimpleITK")
    scan = dicom.read_image(REAL / "mr_crop_40")
    assert scan.array.shape == (1, 34, 50, 40)
    reader = sitk.ImageSeriesReader()
    reader.SetFileNames(reader.GetGDCMSeriesFileNames(str(REAL / "mr_crop_40")))
    theirs = sitk.GetArrayFromImage(reader.Execute())  # z, y, x; axial, from the head's right back
    assert np.array_equal(scan.array[0], theirs.transpose(2, 1, 0)[::-1, ::-1])
    assert scan.affine[:3, 3] == pytest.approx([-33, -49, 1])
