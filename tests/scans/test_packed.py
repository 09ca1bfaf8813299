"""Bytes from outside are unpacked no further than declared, and never beyond the memory."""

import bz2
import gzip
import io
import zlib
from collections.abc import Callable
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from scans.limits import little_memory

from tracoco.errors import UserError
from tracoco.scans.packed import LAST, Packing, read_bytes, read_voxels, unpacking
from tracoco.scans.reader import read_image

PACK: dict[Packing, Callable[[bytes], bytes]] = {
    "raw": bytes,
    "gzip": gzip.compress,
    "zlib": zlib.compress,
    "bz2": bz2.compress,
}
CONTENT = bytes(range(256)) * 2_000
HERE = Path("a.scan")
BOMB = 48 * 2**20


@pytest.mark.parametrize("packing", PACK)
def test_what_was_packed_comes_out(packing: Packing) -> None:
    stream = unpacking(io.BytesIO(b"before" + PACK[packing](CONTENT)), packing)
    if packing == "raw":
        assert read_bytes(stream, len(CONTENT), HERE, skip=6) == CONTENT
    packed = unpacking(io.BytesIO(PACK[packing](CONTENT)), packing)
    assert read_bytes(packed, len(CONTENT) - 5, HERE, skip=5) == CONTENT[5:]


@pytest.mark.parametrize("packing", PACK)
def test_too_few_bytes_are_told(packing: Packing) -> None:
    stream = unpacking(io.BytesIO(PACK[packing](CONTENT)), packing)
    with pytest.raises(UserError, match=r"a\.scan is cut short: 512000 bytes of 512001"):
        read_bytes(stream, len(CONTENT) + 1, HERE)


@pytest.mark.parametrize("packing", PACK)
def test_too_many_bytes_are_told(packing: Packing) -> None:
    def stream() -> io.BufferedIOBase:
        return unpacking(io.BytesIO(PACK[packing](CONTENT)), packing)  # type: ignore[return-value]  # it has what is read of it

    with pytest.raises(UserError, match=r"a\.scan holds more than the 511,990 bytes"):
        read_bytes(stream(), len(CONTENT) - 10, HERE)  # type: ignore[arg-type]  # as above
    short = read_bytes(stream(), len(CONTENT) - 10, HERE, trailing=10)  # type: ignore[arg-type]  # as above
    assert short == CONTENT[:-10]


@pytest.mark.parametrize("packing", ["gzip", "zlib", "bz2"])
def test_a_wrong_checksum_is_told(packing: Packing) -> None:
    packed = bytearray(PACK[packing](CONTENT))
    packed[{"gzip": -8, "zlib": -1, "bz2": -3}[packing]] ^= 1
    with pytest.raises(UserError, match="damaged or cut short"):
        read_bytes(unpacking(io.BytesIO(packed), packing), len(CONTENT), HERE)


@pytest.mark.parametrize("packing", ["gzip", "zlib", "bz2"])
def test_a_packed_file_without_its_end_is_told(packing: Packing) -> None:
    packed = PACK[packing](CONTENT)[:-2]
    with pytest.raises(UserError, match="damaged or cut short"):
        read_bytes(unpacking(io.BytesIO(packed), packing), len(CONTENT), HERE)


def test_the_last_bytes_are_found_from_the_end() -> None:
    stream = io.BytesIO(b"a header of unknown length" + CONTENT)
    assert read_bytes(stream, len(CONTENT), HERE, skip=LAST) == CONTENT
    with pytest.raises(UserError, match="cut short"):
        read_bytes(io.BytesIO(b"abc"), 4, HERE, skip=LAST)


def test_the_first_axis_of_voxels_runs_fastest() -> None:
    stream = io.BytesIO(np.arange(6, dtype="<i2").tobytes())
    voxels = read_voxels(stream, (3, 2), np.dtype("<i2"), HERE)
    assert voxels.tolist() == [[0, 3], [1, 4], [2, 5]]


@pytest.mark.parametrize("shape", [(20_000, 20_000, 20_000), (2**40, 2**40, 2), (-1, 2, 2)])
def test_what_no_memory_holds_is_refused_before_it_is_read(shape: tuple[int, ...]) -> None:
    with little_memory(), pytest.raises(UserError, match=r"a\.scan.*(memory|below zero)"):
        read_voxels(io.BytesIO(b""), shape, np.dtype("<f4"), HERE)


@pytest.mark.parametrize("packing", ["gzip", "zlib", "bz2"])
def test_a_bomb_is_unpacked_no_further_than_declared(packing: Packing) -> None:
    bomb = PACK[packing](bytes(BOMB))
    assert len(bomb) < 2**20
    with little_memory(), pytest.raises(UserError, match="holds more than the 32 bytes"):
        read_bytes(unpacking(io.BytesIO(bomb), packing), 32, HERE)


def nifti(path: Path) -> bytes:
    nib.save(nib.Nifti1Image(np.zeros((2, 2, 2), np.float32), np.eye(4)), path)
    return gzip.compress(gzip.decompress(path.read_bytes()) + bytes(BOMB))


def freesurfer(path: Path) -> bytes:
    nib.save(nib.MGHImage(np.zeros((2, 2, 2), np.float32), np.eye(4)), path)
    return gzip.compress(gzip.decompress(path.read_bytes()) + bytes(BOMB))


def nrrd(path: Path) -> bytes:  # noqa: ARG001 - as the others
    header = b"NRRD0004\ntype: uint8\ndimension: 3\nsizes: 2 2 2\nencoding: gzip\n\n"
    return header + gzip.compress(bytes(BOMB))


def metaimage(path: Path) -> bytes:  # noqa: ARG001 - as the others
    header = b"NDims = 3\nCompressedData = True\nDimSize = 2 2 2\nElementType = MET_UCHAR\n"
    return header + b"ElementDataFile = LOCAL\n" + zlib.compress(bytes(BOMB))


BOMBS = {"a.nii.gz": nifti, "a.mgz": freesurfer, "a.nrrd": nrrd, "a.mha": metaimage}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_of_every_format_is_one_error(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(BOMBS[name](path))
    with little_memory(), pytest.raises(UserError, match=f"{name} holds more than"):
        read_image(path)
