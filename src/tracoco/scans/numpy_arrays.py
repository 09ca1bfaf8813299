"""NumPy's files: one array (.npy), or an image and perhaps its label (.npz); no pickles."""

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from numpy.lib import format as npy
from numpy.typing import NDArray

from tracoco.errors import UserError
from tracoco.scans.array_layouts import (
    IMAGE_NAMES,
    LABEL_NAMES,
    check_label_shape,
    describe_array,
    find_name,
    stored_array,
)
from tracoco.scans.scan import LabelScan, Scan, ScanHeader
from tracoco.scans.stored import as_image, as_label, readable

READ_HEADER = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def has_label(path: Path) -> bool:
    """Whether the file holds a label beside an image."""
    return any(name in _names(path) for name in LABEL_NAMES)


def read_header(path: Path) -> ScanHeader:
    """Shape and channels of the image, or of the label if there is nothing else."""
    return _describe(path, (*IMAGE_NAMES, *LABEL_NAMES))


def read_image(path: Path) -> Scan:
    """Read the image as float32 [C, X, Y, Z], axes as they are stored."""
    return as_image(stored_array(_array(path, IMAGE_NAMES), path))


def read_label(path: Path) -> LabelScan:
    """Read the label as integers [X, Y, Z], axes as they are stored."""
    label = _describe(path, LABEL_NAMES)
    check_label_shape(_describe(path, (*IMAGE_NAMES, *LABEL_NAMES)), label)
    return as_label(stored_array(_array(path, LABEL_NAMES), path))


def _describe(path: Path, wanted: tuple[str, ...]) -> ScanHeader:
    with _opened(path, wanted) as file:
        shape, _, dtype = READ_HEADER[npy.read_magic(file)](file)
    return describe_array(shape, dtype, path)


def _array(path: Path, wanted: tuple[str, ...]) -> NDArray[Any]:
    _describe(path, wanted)  # names what cannot be loaded
    with _opened(path, wanted) as file:
        array: NDArray[Any] = npy.read_array(file, allow_pickle=False)
    return array


def _names(path: Path) -> list[str]:
    """The arrays of a .npz file; a .npy file has one without a name."""
    if path.suffix.lower() == ".npy":
        return []
    with _sound(path), zipfile.ZipFile(path) as archive:
        return [name.removesuffix(".npy") for name in archive.namelist()]


@contextmanager
def _opened(path: Path, wanted: tuple[str, ...]) -> Iterator[IO[bytes]]:
    """The bytes of the first wanted array, whose header and numbers follow each other."""
    if path.suffix.lower() == ".npy":
        with _sound(path), path.open("rb") as file:
            yield file
        return
    name = find_name(_names(path), wanted, path)
    with _sound(path), zipfile.ZipFile(path) as archive, archive.open(f"{name}.npy") as member:
        yield member


@contextmanager
def _sound(path: Path) -> Iterator[None]:
    try:
        with readable(path):
            yield
    except (zipfile.BadZipFile, KeyError, ValueError) as error:
        raise UserError(
            f"{path} holds no array of numbers, or is damaged ({error}). Pickles are never "
            "loaded, because they could run code; save the voxels with np.save or np.savez"
        ) from error
