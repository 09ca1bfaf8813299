"""Folders that hold one series together, told from folders that hold a series each."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from pydicom.dataset import Dataset, FileDataset
from scans.dicom_samples import assert_placed, make_frames, save, write_series

from tracoco.scans import dicom as dicom_spread
from tracoco.scans.dicom import is_one_series, read_image
from tracoco.scans.dicom_files import DicomFile, read_object


def folders(root: Path) -> list[Path]:
    return sorted(entry for entry in root.iterdir() if entry.is_dir())


def moved(millimetres: float, series: str | None = None) -> Callable[[int, Dataset], None]:
    """Change each slice to lie elsewhere, and perhaps to be of another series."""

    def change(_: int, slice_: Dataset) -> None:
        x, y, z = slice_.ImagePositionPatient
        slice_.ImagePositionPatient = [x, y, z + millimetres]
        slice_.SeriesInstanceUID = series or slice_.SeriesInstanceUID

    return change


@pytest.mark.parametrize(
    "place",
    [
        lambda index: f"{index}/slice.dcm",  # a folder a slice
        lambda index: f"{index // 2}/{index}.dcm",  # halves
        lambda index: f"{index % 2}/{index}.dcm",  # every other slice
        lambda index: f"{min(index, 1)}/deeper/{index}",  # one, then all others
    ],
)
def test_parts_of_a_series_are_one_scan(place: Callable[[int], str], tmp_path: Path) -> None:
    write_series(tmp_path, name=place)
    assert is_one_series(folders(tmp_path))
    assert_placed(read_image(tmp_path))


def test_a_folder_a_series_are_several_scans(tmp_path: Path) -> None:
    for index in range(3):
        write_series(tmp_path / str(index), change=moved(8.0 * index, f"1.2.{index}"))
    assert not is_one_series(folders(tmp_path))


def test_two_headers_tell_that_series_differ(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for index in range(20):
        write_series(tmp_path / f"{index:02d}", change=moved(0, f"1.2.{index}"))
    read = []

    def counted(file: DicomFile, path: Path, tags: list[str]) -> FileDataset:
        read.append(path.name)
        return read_object(file, path, tags)

    monkeypatch.setattr(dicom_spread, "read_object", counted)
    monkeypatch.setattr(dicom_spread, "read_contents", None)
    assert not is_one_series(folders(tmp_path))
    assert read == ["00", "01"]


@pytest.mark.parametrize("millimetres", [0.0, 1.0, 100.0])
def test_whole_scans_under_one_name_are_several(tmp_path: Path, millimetres: float) -> None:
    """Copies, and scans that lost their own names: four slices 2 mm apart each."""
    write_series(tmp_path / "a")
    write_series(tmp_path / "b", change=moved(millimetres))
    # Moved by 1 mm the slices of one lie between those of the other: as good as one series.
    assert is_one_series(folders(tmp_path)) == (millimetres == 1.0)


def test_files_of_frames_are_whole_scans(tmp_path: Path) -> None:
    for name in ("a", "b"):
        save(make_frames(), tmp_path / name / "frames")
    assert not is_one_series(folders(tmp_path))


def test_a_series_with_a_gap_is_one_scan_so_that_reading_it_is_refused(tmp_path: Path) -> None:
    write_series(tmp_path, np.zeros((6, 3, 5), np.int16), name="{}/slice.dcm".format)
    (tmp_path / "2" / "slice.dcm").unlink()
    (tmp_path / "2").rmdir()
    assert is_one_series(folders(tmp_path))


def test_a_damaged_file_decides_nothing(tmp_path: Path) -> None:
    spread, each = tmp_path / "spread", tmp_path / "each"
    write_series(spread, name="{}/slice.dcm".format)
    (spread / "1" / "slice.dcm").write_bytes(b"cut")
    assert is_one_series(folders(spread))
    write_series(each / "a")
    write_series(each / "b")
    (each / "b" / "00.dcm").write_bytes(b"cut")
    assert not is_one_series(folders(each))
