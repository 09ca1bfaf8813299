"""Headers that lie: one line with the name of the file, no other file read, no memory taken."""

import os
import struct
from pathlib import Path
from typing import NoReturn

import nibabel as nib
import numpy as np
import pytest

from tracoco.errors import UserError
from tracoco.scans.reader import read_grid, read_image, read_label


@pytest.mark.parametrize(
    ("raised", "shown"),
    [
        (RecursionError("deep"), "cannot be read (RecursionError)"),
        (MemoryError(), "does not fit into memory"),
        (struct.error("unpack"), "cannot be read (error)"),
        (OverflowError("Doe^Jane"), "cannot be read (OverflowError)"),
    ],
)
def test_whatever_a_reader_raises_is_one_line_with_the_name_of_the_file(
    raised: Exception, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(path: Path) -> NoReturn:  # noqa: ARG001 - as readers have it
        raise raised

    path = tmp_path / "a.nrrd"
    for function in (read_image, read_label, read_grid):
        name = "read_header" if function is read_grid else function.__name__
        monkeypatch.setattr(f"tracoco.scans.nrrd.{name}", broken)
        with pytest.raises(UserError) as caught:
            function(path)
        assert str(caught.value).startswith(f"{path} {shown}")
        assert "\n" not in str(caught.value)
        assert "Doe" not in str(caught.value)


def test_an_error_of_the_user_passes_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"a\.nii does not exist$"):
        read_image(tmp_path / "a.nii")


def test_a_pipe_is_no_scan(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.nii")
    with pytest.raises(UserError, match=r"a\.nii is no file"):
        read_image(tmp_path / "a.nii")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.mhd", "NDims = 3\nDimSize = 2 2 2\nElementType = MET_UCHAR\nElementDataFile = {}\n"),
        ("a.nhdr", "NRRD0004\ntype: uint8\ndimension: 3\nsizes: 2 2 2\nencoding: raw\n"
         "data file: {}\n\n"),
    ],
)  # fmt: skip
def test_a_header_names_no_file_elsewhere(tmp_path: Path, name: str, text: str) -> None:
    secret = tmp_path / "secret.raw"
    secret.write_bytes(b"password")
    folder = tmp_path / "scan"
    (folder / "below").mkdir(parents=True)
    (folder / "link.raw").symlink_to(secret)
    (folder / "ring.raw").symlink_to(folder / "ring.raw")
    (folder / "away").symlink_to(tmp_path)
    header = folder / name
    outside = [str(secret), "../secret.raw", "below/../../secret.raw", "link.raw", "ring.raw"]
    for data in [*outside, "away/secret.raw", "..\\secret.raw", "C:\\secret.raw", "a\0b"]:
        header.write_text(text.format(data))
        with pytest.raises(UserError, match="does not lie beside it"):
            read_image(header)
    header.write_text(text.format(" "))
    with pytest.raises(UserError, match="does not name the file of its voxels"):
        read_image(header)
    for data in ("voxels.raw", "below/voxels.raw"):
        (folder / data).write_bytes(b"password")
        header.write_text(text.format(data))
        assert read_image(header).array.max() == ord("w")
    (folder / "inside.raw").symlink_to(folder / "voxels.raw")
    header.write_text(text.format("inside.raw"))
    assert read_image(header).array.max() == ord("w")


def raw(path: Path, **fields: str) -> Path:
    known = {"NDims": "3", "DimSize": "2 2 2", "ElementType": "MET_UCHAR"} | fields
    lines = [f"{key} = {value}\n" for key, value in known.items()]
    path.write_bytes("".join([*lines, "ElementDataFile = LOCAL\n"]).encode() + bytes(8))
    return path


@pytest.mark.parametrize(
    "fields",
    [
        {"ElementNumberOfChannels": "-1"},
        {"ElementNumberOfChannels": "0"},
        {"DimSize": "4611686018427387904 4 4"},
        {"DimSize": "9" * 30 + " 2 2"},
        {"HeaderSize": "-2"},
        {"HeaderSize": "9" * 30},
        {"ElementSpacing": "1e999 1 1"},
    ],
)
def test_absurd_numbers_of_a_metaimage_are_one_error(
    tmp_path: Path, fields: dict[str, str]
) -> None:
    path = raw(tmp_path / "a.mha", **fields)
    with pytest.raises(UserError, match=r"a\.mha"):
        read_image(path)


@pytest.mark.parametrize(
    "line",
    [
        *("line skip: 9999999999", "byte skip: 9999999999", "line skip: -1", "byte skip: -7"),
        *("sizes: 99999999999999999999 2 2", "sizes: -2 2 2", "dimension: 99999999999999999999"),
    ],
)
def test_absurd_numbers_of_an_nrrd_are_one_error(tmp_path: Path, line: str) -> None:
    path = tmp_path / "a.nrrd"
    header = f"NRRD0004\ntype: uint8\ndimension: 3\nsizes: 2 2 2\nencoding: raw\n{line}\n\n"
    path.write_bytes(header.encode() + bytes(8))
    with pytest.raises(UserError, match=r"a\.nrrd"):
        read_image(path)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e30, 1e9])
def test_an_absurd_offset_of_a_nifti_is_one_error(tmp_path: Path, value: float) -> None:
    path = tmp_path / "a.nii"
    nib.save(nib.Nifti1Image(np.zeros((2, 2, 2), np.float32), np.eye(4)), path)
    content = bytearray(path.read_bytes())
    content[108:112] = struct.pack("<f", value)
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"a\.nii has a damaged header"):
        read_image(path)
