"""The bytes of a file, unpacked; what is missing, damaged or cut short is named."""

import gzip
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from tracoco.errors import UserError

GZIP_MAGIC = b"\x1f\x8b"


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """A file to read from, unpacked where it is packed, whatever its suffix says."""
    with readable(path), path.open("rb") as file:
        packed = file.read(2) == GZIP_MAGIC
        file.seek(0)
        yield gzip.GzipFile(fileobj=file) if packed else file  # type: ignore[misc]  # is a file


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


@contextmanager
def sound_header(path: Path, *kinds: type[Exception]) -> Iterator[None]:
    """Name the file whose header holds what cannot be understood."""
    expected: tuple[type[Exception], ...] = (KeyError, ValueError, *kinds)
    try:
        yield
    except expected as error:
        reason = f"missing or unknown: {error}" if isinstance(error, KeyError) else str(error)
        raise UserError(
            f"{path} has a damaged header ({reason}); copy it again, or save it anew with the "
            "program that it comes from"
        ) from error


def voxels_in(
    content: bytes, start: int, shape: Sequence[int], dtype: np.dtype[Any], path: Path
) -> NDArray[Any]:
    """The numbers from byte `start` on, the first axis running fastest; -1 if they come last."""
    size = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
    start = max(len(content) - size if start == -1 else start, 0)
    if len(content) < start + size:
        raise UserError(
            f"{path} is cut short: {len(content)} bytes of {start + size}; copy it again"
        )
    return np.ndarray(tuple(shape), dtype, buffer=content, offset=start, order="F")


def data_file(header: Path, name: str) -> Path:
    """The file that a header of its own names as the one with the voxels."""
    words = name.split()
    if words[0].upper().startswith("LIST") or "%" in name:
        raise UserError(
            f"{header} spreads its voxels over several files ('{name}'); save it as one file"
        )
    path = header.parent / name
    if not path.is_file():
        raise UserError(
            f"{header} is a header without data: its voxels are in {path}, which does not exist. "
            "Put that file there, or save both as one file"
        )
    return path
