"""Series that are refused: each for its own reason, with the folder, the numbers, and the fix."""

from collections.abc import Callable, Sequence
from pathlib import Path
from shutil import copytree

import numpy as np
import pytest
from pydicom.dataset import Dataset
from pydicom.uid import DeflatedExplicitVRLittleEndian, SecondaryCaptureImageStorage
from scans.dicom_samples import (
    OBLIQUE,
    ORIGIN,
    PATIENT,
    VOXELS,
    make_frames,
    make_slice,
    pack,
    position,
    save,
    write_series,
)
from scans.limits import little_memory

from tracoco import memory
from tracoco.errors import UserError
from tracoco.scans import dicom
from tracoco.scans.reader import read_image


def at(places: Sequence[float]) -> Callable[[int, Dataset], None]:
    """Slices at multiples of 2 mm."""

    def move(index: int, slice_: Dataset) -> None:
        slice_.ImagePositionPatient = position(places[index])

    return move


def only(which: int | None, **tags: object) -> Callable[[int, Dataset], None]:
    """Change tags of one slice, or of all."""

    def change(index: int, slice_: Dataset) -> None:
        if which in (index, None):
            for keyword, value in tags.items():
                setattr(slice_, keyword, value)

    return change


def tilted(index: int, slice_: Dataset) -> None:
    slice_.ImagePositionPatient = [-10, 20 + 2 * np.tan(np.deg2rad(10)) * index, 5 + 2 * index]


def wandering(index: int, slice_: Dataset) -> None:
    slice_.ImagePositionPatient = [-10 + (index == 2), 20, 5 + 2 * index]


def smaller(index: int, slice_: Dataset) -> None:
    if index == 3:
        slice_.Rows, slice_.PixelData = 2, VOXELS[0, :2].tobytes()


PROBLEMS = [
    (
        at([0, 1, 3, 6]),
        r"lacks 3 slices: 4 slices lie 2\.00 mm apart but for 2 gaps of up to 6\.00",
    ),
    (at([0, 1, 3, 6]), r"the first between 01\.dcm and 02\.dcm\. Export the series again"),
    (at([0, 1, 2.5, 4]), r"unevenly spaced slices: 4 slices lie 2\.00 to 3\.00 mm apart"),
    (at([0, 1, 0, 1]), "4 images at 2 positions, 2 at each: several times, echoes"),
    (at([0, 1, 2, 2]), "4 images at 3 positions, 1 to 2 at each"),
    (tilted, r"tilted gantry: .* 10\.0 degrees"),
    (wandering, r"lie up to 0\.70 mm beside one another"),
    (smaller, r"2 sizes: 5 x 3 \(3 slices\); 5 x 2 \(1 slices\)"),
    (only(2, PixelSpacing=[0.5, 0.8]), r"2 pixel spacings: 0\.75 x 0\.5 mm \(3 slices\)"),
    (only(1, ImageOrientationPatient=list(OBLIQUE)), "2 orientations"),
    (only(1, FrameOfReferenceUID="1.9"), "2 frames of reference"),
    (only(0, PhotometricInterpretation="PALETTE COLOR"), r"00\.dcm has PALETTE COLOR pixels"),
    (only(0, PhotometricInterpretation="RGB", SamplesPerPixel=3), r"00\.dcm has RGB pixels"),
    (only(0, ImagePositionPatient=None), r"00\.dcm \(CT Image Storage\) has no ImagePosition"),
    (only(0, PixelSpacing=None), "has no PixelSpacing"),
    (only(0, ModalityLUTSequence=[Dataset()]), "lookup table"),
    (only(2, PixelData=VOXELS[0].tobytes()[:10]), r"02\.dcm cannot be read: .* cut short"),
]


@pytest.mark.parametrize(("change", "problem"), PROBLEMS, ids=[p for _, p in PROBLEMS])
def test_what_would_be_placed_wrongly_is_refused(
    tmp_path: Path, change: Callable[[int, Dataset], None], problem: str
) -> None:
    folder = write_series(tmp_path / "folder", change=change)
    with pytest.raises(UserError, match=problem) as caught:
        dicom.read_image(folder)
    assert str(caught.value).startswith(str(folder))
    assert PATIENT not in str(caught.value)


def test_an_untouched_series_has_none_of_these_problems(tmp_path: Path) -> None:
    scan = dicom.read_image(write_series(tmp_path))
    assert sorted(scan.array.ravel()) == sorted(VOXELS.ravel())


def test_one_slice_missing_among_many_is_noticed(tmp_path: Path) -> None:
    places = np.delete(np.arange(61.0), 59)
    folder = write_series(tmp_path, np.zeros((60, 2, 2), np.int16), change=at(places.tolist()))
    with pytest.raises(UserError, match="lacks 1 slices"):
        dicom.read_header(folder)


def test_several_series_are_listed_with_their_counts(tmp_path: Path) -> None:
    write_series(tmp_path / "a")
    write_series(
        tmp_path / "b",
        VOXELS[:2],
        change=only(None, SeriesInstanceUID="1.2.9", SeriesDescription="scout"),
    )
    with pytest.raises(UserError, match="has 2 series; give the folder of one") as caught:
        dicom.read_header(tmp_path)
    lines = str(caught.value).splitlines()[1:]
    assert lines == [
        "  1.2.3.4: 4 slices, e.g. a/00.dcm",
        "  1.2.9: 2 slices, e.g. b/00.dcm",
    ]


def test_copies_are_told_from_times(tmp_path: Path) -> None:
    copytree(write_series(tmp_path / "a"), tmp_path / "b")
    with pytest.raises(UserError, match=r"8 images at 4 positions, 2 at each: 4 .* copies"):
        dicom.read_header(tmp_path)


def test_a_screenshot_has_no_place_in_the_body(tmp_path: Path) -> None:
    shot = make_slice(VOXELS[0], ORIGIN)
    shot.file_meta.MediaStorageSOPClassUID = shot.SOPClassUID = SecondaryCaptureImageStorage
    for keyword in ("ImagePositionPatient", "ImageOrientationPatient", "PixelSpacing"):
        delattr(shot, keyword)
    save(shot, tmp_path / "shot")
    with pytest.raises(UserError, match=r"shot \(Secondary Capture Image Storage\) has no Pixel"):
        dicom.read_header(tmp_path)


def test_frames_without_places_are_refused(tmp_path: Path) -> None:
    frames = make_frames()
    del frames.PerFrameFunctionalGroupsSequence
    save(frames, tmp_path / "x")
    with pytest.raises(UserError, match="4 frames and places for 0 of them"):
        dicom.read_header(tmp_path)


def test_frames_at_several_times_are_refused(tmp_path: Path) -> None:
    frames = make_frames()
    for group in frames.PerFrameFunctionalGroupsSequence:
        group.PlanePositionSequence[0].ImagePositionPatient = list(ORIGIN)
    save(frames, tmp_path / "x")
    with pytest.raises(UserError, match="4 images at 1 positions, 4 at each: several times"):
        dicom.read_header(tmp_path)


def test_directions_that_are_none_are_refused(tmp_path: Path) -> None:
    bent = [1.0, 0.0, 0.0, 0.5, 0.5, 0.0]
    folder = write_series(tmp_path, change=only(None, ImageOrientationPatient=bent))
    with pytest.raises(UserError, match="not two directions at a right angle"):
        dicom.read_header(folder)


def test_a_single_slice_without_a_thickness_is_refused(tmp_path: Path) -> None:
    folder = write_series(tmp_path, VOXELS[:1], change=only(0, SliceThickness=None))
    with pytest.raises(UserError, match=r"one slice, 00\.dcm, without SliceThickness"):
        dicom.read_header(folder)


def test_a_folder_without_dicom_says_so(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing")
    with pytest.raises(UserError, match="has no DICOM image in it"):
        dicom.read_image(tmp_path)
    with pytest.raises(UserError, match="absent does not exist"):
        dicom.read_image(tmp_path / "absent")


@pytest.mark.parametrize("kept", [0, 100, 400, 700])
def test_no_cut_slice_is_passed_over_in_silence(tmp_path: Path, kept: int) -> None:
    """The last slice: without it the others would still be a sound, shorter series."""
    last = write_series(tmp_path) / "03.dcm"
    last.write_bytes(last.read_bytes()[:kept])
    with pytest.raises(UserError, match=r"03\.dcm"):
        dicom.read_image(tmp_path)


def deflated(path: Path, spare: bytes = b"") -> None:
    slice_ = make_slice(VOXELS[0], ORIGIN)
    slice_.file_meta.TransferSyntaxUID = DeflatedExplicitVRLittleEndian
    slice_.add_new(0x00091010, "OB", spare)
    save(slice_, path)


def test_an_object_that_is_deflated_as_a_whole_is_never_unpacked(tmp_path: Path) -> None:
    deflated(tmp_path / "a.dcm", bytes(2**26))
    with little_memory(), pytest.raises(UserError, match="is deflated as a whole"):
        dicom.read_header(tmp_path)


def test_a_zip_that_unpacks_to_many_times_its_size_is_refused(tmp_path: Path) -> None:
    slice_ = make_slice(VOXELS[0], ORIGIN)
    slice_.add_new(0x00091010, "OB", bytes(80 * 2**20))
    save(slice_, tmp_path / "series/a.dcm")
    path = pack(tmp_path / "series", tmp_path / "a.zip")
    with little_memory(), pytest.raises(UserError, match=r"a\.zip unpacks to 80 MiB"):
        read_image(path)


def test_slices_that_no_memory_holds_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "available_bytes", lambda: 200)
    with pytest.raises(UserError, match=r"reading it needs .* and 0\.0 GiB are available"):
        read_image(write_series(tmp_path / "series"))


def read_or_refused(folder: Path, at: int, change: bytes) -> None:
    """Change bytes of one slice: what is not refused in one line is the same scan as before."""
    expected = read_image(folder).array
    path = folder / "02.dcm"
    content = bytearray(path.read_bytes())
    content[at : at + len(change)] = change
    path.write_bytes(content)
    with little_memory():
        try:
            found = read_image(folder)
        except UserError as error:
            problem = str(error)
        else:
            problem = ""
            assert np.array_equal(found.array, expected)
    assert "\n" not in problem
    assert str(folder) in (problem or str(folder))


TAGS = [b"\x28\x00\x10\x00", b"\x28\x00\x30\x00", b"\x20\x00\x32\x00", b"\xe0\x7f\x10\x00"]
"""Rows, spacing, position, pixels."""


@pytest.mark.parametrize("length", [b"\xff\xff\xff\xfe", b"\xff\xff\xff\xff", b"\0\0\0\x7f"])
@pytest.mark.parametrize("tag", TAGS)
@pytest.mark.filterwarnings("ignore")
def test_a_huge_length_is_one_error_or_the_same_scan(
    tmp_path: Path, tag: bytes, length: bytes
) -> None:
    folder = write_series(tmp_path / "series")
    at = (folder / "02.dcm").read_bytes().index(tag)
    read_or_refused(folder, at + (8 if tag == TAGS[-1] else 6), length)


@pytest.mark.parametrize("wrong", [b"SQ", b"US", b"??", b"UN", b"\0\0"])
@pytest.mark.parametrize("tag", TAGS)
@pytest.mark.filterwarnings("ignore")
def test_a_flipped_type_is_one_error_or_the_same_scan(
    tmp_path: Path, tag: bytes, wrong: bytes
) -> None:
    folder = write_series(tmp_path / "series")
    read_or_refused(folder, (folder / "02.dcm").read_bytes().index(tag) + 4, wrong)
