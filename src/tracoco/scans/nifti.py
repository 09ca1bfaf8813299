"""NIfTI-1 and NIfTI-2 in one file (.nii, .nii.gz)."""

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import nibabel
import numpy as np
from nibabel.spatialimages import HeaderDataError
from numpy.typing import NDArray

from tracoco.errors import UserError
from tracoco.files import atomic_path
from tracoco.scans import checks
from tracoco.scans.scan import (
    Grid,
    LabelScan,
    Scan,
    ScanHeader,
    canonical_geometry,
    to_canonical,
    to_grid,
)

SUFFIXES = (".nii.gz", ".nii")
GZIP_MAGIC = b"\x1f\x8b"
MILLIMETRES = {"meter": 1000.0, "mm": 1.0, "micron": 0.001, "unknown": 1.0}
LABEL_TYPES = (np.uint8, np.int16, np.int32, np.int64)
"""In order of preference; other integer types are less widely read."""
GEOMETRY = (
    *("qform_code", "sform_code", "quatern_b", "quatern_c", "quatern_d"),
    *("qoffset_x", "qoffset_y", "qoffset_z", "srow_x", "srow_y", "srow_z", "xyzt_units"),
)
"""Header fields that a result shares with its scan, beside the first four of `pixdim`."""

Header = Any  # nibabel is typed in part only
IMAGES: dict[Header, Any] = {
    nibabel.Nifti1Header: nibabel.Nifti1Image,
    nibabel.Nifti2Header: nibabel.Nifti2Image,
}


def read_header(path: Path) -> ScanHeader:
    """Shape, spacing and channels, without the voxels."""
    with _opened(path) as file:
        header = _parse(file.read(nibabel.Nifti2Header.sizeof_hdr), path)
    return _describe(header, path)


def read_image(path: Path) -> Scan:
    """Read an image as float32 [C, X, Y, Z] in canonical order."""
    about, voxels, (slope, intercept) = _read(path)
    with np.errstate(over="ignore"):  # what overflows is infinite, and refused below
        array = to_canonical(voxels, about.grid).astype(np.float32, copy=False)
    if (slope, intercept) != (1.0, 0.0):
        array = array * np.float32(slope) + np.float32(intercept)
    checks.check_finite(array, path)
    return Scan(array, about.affine, about.spacing_mm, about.grid, path)


def read_label(path: Path) -> LabelScan:
    """Read a label map as integers [X, Y, Z] in canonical order."""
    about, voxels, (slope, intercept) = _read(path)
    if about.channels != 1:
        raise UserError(
            f"{path} has {about.channels} channels; a label map is 3D with one value a voxel. "
            "Merge the channels into one map"
        )
    array = to_canonical(voxels[0], about.grid)
    if (slope, intercept) != (1.0, 0.0):
        array = array * slope + intercept
    array = checks.as_integers(array, path)
    return LabelScan(array, about.affine, about.spacing_mm, about.grid, path)


def write_label(path: Path, label: NDArray[Any], grid: Grid) -> None:
    """Write a canonical label map on the grid of the scan that it belongs to."""
    kind = next(kind for kind in LABEL_TYPES if _fits(label, kind))
    voxels = to_grid(label, grid).astype(kind)
    header = _header_on(grid)
    header.set_data_dtype(kind)
    header.set_data_shape(voxels.shape)
    with atomic_path(path) as temporary:
        nibabel.save(IMAGES[type(header)](voxels, None, header), temporary)


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    """A file to read from, unpacked where it is packed, whatever its suffix says."""
    try:
        with path.open("rb") as file:
            packed = file.read(2) == GZIP_MAGIC
            file.seek(0)
            yield gzip.GzipFile(fileobj=file) if packed else file  # type: ignore[misc]  # is a file
    except FileNotFoundError:
        raise UserError(f"{path} does not exist") from None
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(
            f"{path} cannot be read ({error}): it is damaged or cut short; copy it again"
        ) from error


@contextmanager
def _sound_header(path: Path) -> Iterator[None]:
    try:
        yield
    except (HeaderDataError, KeyError, ValueError) as error:
        raise UserError(f"{path} has a damaged header ({error}); copy it again") from error


def _parse(content: bytes, path: Path) -> Header:
    for kind in IMAGES:
        block = content[: kind.sizeof_hdr]
        if kind.may_contain_header(block):
            with _sound_header(path):
                return kind(block)
    raise UserError(f"{path} is not a NIfTI file, or is cut short; copy or convert it again")


def _describe(header: Header, path: Path) -> ScanHeader:
    spatial, channels = checks.split_channels(header.get_data_shape(), path)
    checks.check_voxel_type(header.get_data_dtype(), path)
    with _sound_header(path):
        affine = np.array(header.get_best_affine(), dtype=np.float64)
        affine[:3] *= MILLIMETRES[header.get_xyzt_units()[0]]
    checks.check_affine(affine, path)
    grid = Grid(spatial, affine, header.binaryblock)
    return ScanHeader(*canonical_geometry(grid), channels, grid, path)


def _read(path: Path) -> tuple[ScanHeader, NDArray[Any], tuple[float, float]]:
    """The header, the stored numbers [C, X, Y, Z] in the file's own order, slope and intercept."""
    with _opened(path) as file:
        content = file.read()  # to the end: only then has gzip checked its sum
    header = _parse(content, path)
    about = _describe(header, path)
    shape, dtype = (*about.grid.shape, about.channels), header.get_data_dtype()
    start = int(header.get_data_offset())
    needed = start + dtype.itemsize * int(np.prod(shape, dtype=np.int64))
    if len(content) < needed:
        raise UserError(f"{path} is cut short: {len(content)} bytes of {needed}; copy it again")
    voxels: NDArray[Any] = np.ndarray(shape, dtype, buffer=content, offset=start, order="F")
    with _sound_header(path):
        slope, intercept = header.get_slope_inter()
    return about, np.moveaxis(voxels, 3, 0), (slope or 1.0, intercept or 0.0)


def _header_on(grid: Grid) -> Header:
    """A fresh header with the geometry of a grid and nothing else of the scan, e.g. no names."""
    if not grid.header:
        header: Header = nibabel.Nifti1Header()
        header.set_qform(grid.affine, code=1)
        header.set_sform(grid.affine, code=1)
        header.set_xyzt_units("mm")
        return header
    source = _parse(grid.header, Path("header"))
    fresh = type(source)()
    for field in GEOMETRY:
        fresh[field] = source[field]
    pixdim = fresh["pixdim"].copy()
    pixdim[:4] = source["pixdim"][:4]
    fresh["pixdim"] = pixdim
    return fresh


def _fits(label: NDArray[Any], kind: type[np.integer[Any]]) -> bool:
    limits = np.iinfo(kind)
    return limits.min <= int(label.min()) and int(label.max()) <= limits.max
