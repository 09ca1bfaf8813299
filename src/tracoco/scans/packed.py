"""Bytes of files from outside, unpacked no further than their header declares.

A file of a megabyte can unpack to many gigabytes, and a header can declare more than any machine
has. So whoever reads says how many bytes there must be. What does not fit into memory is refused
before it is allocated. Too few bytes and too many are both errors, and a packed file is read to its
end, because only then has its checksum been verified.
"""

import bz2
import gzip
import io
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import IO, Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from tracoco.errors import UserError
from tracoco.memory import check_memory

Packing = Literal["raw", "gzip", "zlib", "bz2"]

GZIP_MAGIC = b"\x1f\x8b"
LAST = -1
PIECE = 2**20
"""Bytes that are unpacked at once."""
MOST_SKIPPED = 64 * 2**20
"""Bytes before the voxels; headers with their extensions have some megabytes at most."""


def unpacking(file: IO[bytes], packing: Packing) -> IO[bytes]:
    """A stream of the bytes that `file` holds packed from its present position on.

    Nothing is unpacked before it is read from the stream, piece by piece.
    """
    if packing == "gzip":
        return cast("IO[bytes]", gzip.GzipFile(fileobj=file))
    if packing == "bz2":
        return cast("IO[bytes]", bz2.BZ2File(file))
    if packing == "zlib":
        return cast("IO[bytes]", io.BufferedReader(_Zlib(file)))
    return file


def read_bytes(
    stream: IO[bytes], size: int, path: Path, *, skip: int = 0, trailing: int = 0
) -> bytearray:
    """Read exactly `size` bytes of a stream, e.g. of `unpacking`, and then to its end.

    Args:
        stream: where to read, from its present position on.
        size: how many bytes the header declares.
        path: the file, for errors.
        skip: bytes to leave out first; `LAST` where the wanted ones are the last of a file that
            is not packed.
        trailing: how many bytes may follow; more are an error.

    Raises:
        UserError: if the bytes do not fit into memory, are too few or too many, or are damaged.
    """
    check_size(size, path)
    if skip == LAST:
        skip = 0
        _go_before_last(stream, size)
    if not 0 <= skip <= MOST_SKIPPED:
        raise UserError(
            f"{path} has a damaged header: {skip:,} bytes before its voxels; copy it again"
        )
    with readable(path):
        skipped = _read_away(stream, skip)
        content = bytearray(size)
        found = _read_into(stream, content)
        if skipped + found < skip + size:
            raise UserError(
                f"{path} is cut short: {skipped + found} bytes of {skip + size}; copy it again"
            )
        if _read_away(stream, trailing + 1) > trailing:
            raise UserError(
                f"{path} holds more than the {size:,} bytes that its header declares: the header "
                "is damaged, or belongs to another file. Copy it again, or save it anew with the "
                "program that it comes from"
            )
    return content


def read_voxels(
    stream: IO[bytes],
    shape: Sequence[int],
    dtype: np.dtype[Any],
    path: Path,
    *,
    skip: int = 0,
    trailing: int = 0,
) -> NDArray[Any]:
    """Read the numbers of an array whose first axis runs fastest; the rest as in `read_bytes`."""
    content = read_bytes(
        stream, voxel_bytes(shape, dtype, path), path, skip=skip, trailing=trailing
    )
    return np.ndarray(tuple(shape), dtype, buffer=content, order="F")


def voxel_bytes(shape: Sequence[int], dtype: np.dtype[Any], path: Path) -> int:
    """Bytes of the voxels that a header declares, which must fit into memory with their copies.

    A scan is stored once, turned into canonical order once, and becomes float32.
    """
    count = prod(map(int, shape))
    size = count * dtype.itemsize
    check_size(2 * size + count * np.dtype(np.float32).itemsize, path)
    return size


def check_size(size: int, path: Path) -> None:
    """Refuse a file whose content does not fit into memory, or has a size below zero."""
    if size < 0:
        raise UserError(f"{path} has a damaged header: a size below zero; copy it again")
    fix = "if its header is right, crop or resample it, or use a machine with more"
    check_memory(size, f"{path}: reading it", fix)


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """A file to read from, unpacked where it is packed by gzip, whatever its suffix says."""
    with readable(path), path.open("rb") as file:
        packed = file.read(2) == GZIP_MAGIC
        file.seek(0)
        yield unpacking(file, "gzip" if packed else "raw")


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Name the file that is missing, or whose bytes cannot be read or unpacked."""
    try:
        yield
    except FileNotFoundError:
        raise UserError(f"{path} does not exist") from None
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(
            f"{path} cannot be read ({error}): it is damaged or cut short; copy it again"
        ) from error


def _go_before_last(stream: IO[bytes], size: int) -> None:
    start = stream.tell()
    stream.seek(max(start, stream.seek(0, io.SEEK_END) - size))


def _read_into(stream: IO[bytes], content: bytearray) -> int:
    found = 0
    while found < len(content):
        piece = stream.read(min(PIECE, len(content) - found))
        if not piece:
            break
        content[found : found + len(piece)] = piece
        found += len(piece)
    return found


def _read_away(stream: IO[bytes], most: int) -> int:
    """Read up to so many bytes and drop them; at the end of a packed file its sum is verified."""
    found = 0
    while found < most and (piece := stream.read(min(PIECE, most - found))):
        found += len(piece)
    return found


class _Zlib(io.RawIOBase):
    """Unpacks a stream of zlib; gzip and bz2 have such a class in Python's library."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._unpacker = zlib.decompressobj()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._unpacker.eof:
            packed = self._unpacker.unconsumed_tail or self._file.read(PIECE)
            content = self._unpacker.decompress(packed, len(buffer))
            if content:
                buffer[: len(content)] = content
                return len(content)
            if not packed and not self._unpacker.eof:
                raise EOFError("its packed part has no end")
        if self._unpacker.unused_data or self._file.read(1):
            raise OSError("bytes follow its packed part")
        return 0
