"""Files of arrays that say nothing of space: HDF5 (.h5), NumPy's .npz and .npy; no pickles.

HDF5 and .npz may hold an image and its label, each under its name. A .npy file has one array, which
is what is asked for.
"""

import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from tracoco.errors import UserError
from tracoco.scans.packed import read_voxels, readable
from tracoco.scans.scan import Grid, LabelScan, Scan, ScanHeader
from tracoco.scans.stored import Stored, as_image, as_label, check_voxel_type, describe

if TYPE_CHECKING:
    from tracoco.scans.hdf5 import Dataset

IMAGE_NAMES = ("image", "data")
LABEL_NAMES = ("label", "mask")
READ_HEADER = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def has_label(path: Path) -> bool:
    """Whether the file holds a label beside an image; that of a .npy file has no name."""
    with _opened(path) as arrays:
        return path.suffix.lower() != ".npy" and any(name in arrays for name in LABEL_NAMES)


def read_header(path: Path) -> ScanHeader:
    """Shape and channels of the image, or of the label if there is nothing else."""
    with _opened(path) as arrays:
        return _found(arrays, (*IMAGE_NAMES, *LABEL_NAMES), path).header


def read_image(path: Path) -> Scan:
    """Read the image as float32 [C, X, Y, Z], axes as they are stored."""
    with _opened(path) as arrays:
        stored = _found(arrays, IMAGE_NAMES, path).stored()
    return as_image(stored)


def read_label(path: Path) -> LabelScan:
    """Read the label as integers [X, Y, Z], axes as they are stored."""
    with _opened(path) as arrays:
        label = _found(arrays, LABEL_NAMES, path)
        image = _found(arrays, (*IMAGE_NAMES, *LABEL_NAMES), path)
        if image.header.shape != label.header.shape:
            raise UserError(
                f"{path} has an image of {image.header.shape} and a label of "
                f"{label.header.shape}; store both on the same voxels"
            )
        stored = label.stored()
    return as_label(stored)


@dataclass(frozen=True, slots=True)
class _Array:
    """One array of a file: where its voxels lie, and how they are read."""

    header: ScanHeader
    read: Callable[[], NDArray[Any]]

    def stored(self) -> Stored:
        shape = (self.header.channels, *self.header.grid.shape)
        return Stored(self.header, self.read().reshape(shape))


_Arrays = Mapping[str, Callable[[], _Array]]
"""By name; nothing is read of an array before it is called for."""


def _found(arrays: _Arrays, wanted: tuple[str, ...], path: Path) -> _Array:
    """The first wanted array that a file has, or what it has instead."""
    for name in wanted:
        if name in arrays:
            return arrays[name]()
    found = ", ".join(sorted(arrays)[:10]) or "no array"
    raise UserError(
        f"{path} has no array {' or '.join(repr(name) for name in wanted)}; it has {found}. "
        "Store it under one of these names"
    )


@contextmanager
def _opened(path: Path) -> Iterator[_Arrays]:
    """The arrays of a file, which is opened once."""
    kind = path.suffix.lower()
    if kind == ".npy":
        with _sound(path), path.open("rb") as file:
            array = partial(_of_stream, lambda: file, path)
            yield {IMAGE_NAMES[0]: array, LABEL_NAMES[0]: array}
    elif kind == ".npz":
        with _sound(path), zipfile.ZipFile(path) as archive:
            yield {
                name.removesuffix(".npy"): partial(_of_stream, partial(archive.open, name), path)
                for name in archive.namelist()
            }
    else:
        from tracoco.scans import hdf5  # noqa: PLC0415 - other files need no HDF5

        with hdf5.datasets(path) as found:
            yield {name: partial(_of_dataset, get, path) for name, get in found.items()}


def _of_dataset(get: "Callable[[], Dataset]", path: Path) -> _Array:
    dataset = get()
    return _Array(_describe(dataset.shape, dataset.dtype, path), dataset.read)


def _of_stream(open_: Callable[[], IO[bytes]], path: Path) -> _Array:
    """An array in NumPy's format; the stream is read again from its start for the numbers."""
    stream = open_()
    stream.seek(0)
    shape, first_axis_fastest, dtype = READ_HEADER[npy.read_magic(stream)](stream)
    about, start = _describe(shape, dtype, path), stream.tell()

    def read() -> NDArray[Any]:
        stream.seek(0)
        if first_axis_fastest:
            return read_voxels(stream, shape, dtype, path, skip=start)
        return read_voxels(stream, shape[::-1], dtype, path, skip=start).T

    return _Array(about, read)


def _describe(shape: tuple[int, ...], dtype: np.dtype[Any], path: Path) -> ScanHeader:
    """Lay an array on an assumed grid: 1 mm, axes as stored, without geometry.

    A slice [H, W] becomes [H, W, 1]: among axes of equal spacing, 2D projects count slices along
    the last. Channels come first.
    """
    check_voxel_type(dtype, path)
    if len(shape) == 4 and shape[0] != min(shape):
        raise UserError(
            f"{path} has an array of the shape {shape}; the channels of a 4D array come first, "
            "and there are fewer of them than voxels on any axis. Move that axis to the front"
        )
    volume = (*shape, 1) if len(shape) == 2 else shape[-3:]
    if len(shape) not in (2, 3, 4) or min(shape) < 1:
        raise UserError(
            f"{path} has an array of the shape {shape}; a scan is a volume [X, Y, Z], channels of "
            "one [C, X, Y, Z], or a slice [H, W]. Store it as one of these"
        )
    first, second, third = volume
    grid = Grid((first, second, third), np.eye(4), has_geometry=False)
    return describe(grid, shape[0] if len(shape) == 4 else 1, path)


@contextmanager
def _sound(path: Path) -> Iterator[None]:
    try:
        with readable(path):
            yield
    except (zipfile.BadZipFile, KeyError, ValueError, NotImplementedError) as error:
        raise UserError(
            f"{path} holds no array of numbers, or is damaged ({error}). Pickles are never "
            "loaded, because they could run code; save the voxels with np.save or np.savez"
        ) from error
