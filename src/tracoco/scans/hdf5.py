"""Data sets of HDF5 files, with all of their voxels in the file itself.

The library fills what was declared and never written with zeros, follows links to other files, and
lets a chunk leave out its checksum. None of that is a scan.
"""

import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from math import ceil, prod
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from tracoco.errors import UserError
from tracoco.scans.packed import readable, voxel_bytes
from tracoco.scans.stored import sound_header

MOST_EXPANSION = 1032
"""How many times as large the content of zlib can be at most."""
HARMLESS = 256 * 2**20
"""Bytes; a chunk that cannot unpack to more is left to the library, which sets no bound itself."""
SPARE_BYTES = 4
"""Of a chunk's content beside its voxels: the checksum, if it was made before packing."""


@dataclass(frozen=True, slots=True)
class Dataset:
    """An array of a file that is open."""

    found: Any  # h5py has no types
    path: Path

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes, as declared."""
        return tuple(self.found.shape or ())

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the numbers."""
        dtype: np.dtype[Any] = self.found.dtype
        return dtype

    def read(self) -> NDArray[Any]:
        """All numbers, if the file itself has them all."""
        size = voxel_bytes(self.shape, self.dtype, self.path)
        if self.found.is_virtual or self.found.external:
            raise _elsewhere(self.found.name, self.path)
        if self.found.chunks:
            _check_chunks(self.found, self.path)
        elif self.found.id.get_storage_size() != size:
            raise _incomplete(self.found.name, self.path)
        numbers: NDArray[Any] = self.found[()]
        return numbers


@contextmanager
def datasets(path: Path) -> Iterator[Mapping[str, Callable[[], Dataset]]]:
    """The data sets at the top of a file by their names; none is read before it is called for."""
    with readable(path), sound_header(path, RuntimeError), h5py.File(path, "r") as file:
        found: dict[str, Callable[[], Dataset]] = {}
        for name in file:
            if not isinstance(file.get(name, getlink=True), h5py.HardLink):
                found[name] = partial(_refuse, name, path)
            elif isinstance(item := file[name], h5py.Dataset):
                found[name] = partial(Dataset, item, path)
        yield found


def _check_chunks(found: Any, path: Path) -> None:
    """Refuse chunks that are missing, that skip a filter, or that unpack to more than a chunk."""
    chunks: list[Any] = []
    found.id.chunk_iter(chunks.append)
    wanted = prod(ceil(size / side) for size, side in zip(found.shape, found.chunks, strict=True))
    if len({chunk.chunk_offset for chunk in chunks}) != wanted:
        raise _incomplete(found.name, path)
    if any(chunk.filter_mask for chunk in chunks):
        raise UserError(
            f"{path} has chunks of '{found.name}' that were stored without its checksum or "
            "packing: it is damaged; copy it again"
        )
    for chunk in chunks:
        if found.compression == "gzip" and chunk.size * MOST_EXPANSION > HARMLESS:
            _check_unpacked(found, chunk.chunk_offset, path)


def _check_unpacked(found: Any, offset: tuple[int, ...], path: Path) -> None:
    """Refuse a chunk whose content is longer than its voxels."""
    _, packed = found.id.read_direct_chunk(offset)
    most = prod(found.chunks) * found.dtype.itemsize + SPARE_BYTES
    try:
        content = zlib.decompressobj().decompress(packed, most + 1)
    except zlib.error:
        return  # the library says that it is damaged
    if len(content) > most:
        raise UserError(
            f"{path} has a chunk of '{found.name}' that holds more than the {most:,} bytes that "
            "its header declares; copy it again, or save it anew"
        )


def _refuse(name: str, path: Path) -> Dataset:
    raise _elsewhere(name, path)


def _elsewhere(name: str, path: Path) -> UserError:
    return UserError(
        f"{path} has no voxels of '{name}' itself but a link to where they are, which is never "
        "followed; copy the voxels into the file"
    )


def _incomplete(name: str, path: Path) -> UserError:
    return UserError(
        f"{path} declares '{name}' and does not hold all of it: the voxels were never written, or "
        "it is damaged; save it again"
    )
