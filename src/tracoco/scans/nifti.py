"""NIfTI-1 and NIfTI-2, in one file (.nii, .nii.gz) or in two (.hdr and .img)."""

import gzip
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
from nibabel.spatialimages import HeaderDataError
from numpy.typing import NDArray

from tracoco.errors import UserError
from tracoco.files import atomic_path
from tracoco.scans import checks
from tracoco.scans.scan import Grid, LabelScan, Scan, ScanHeader, to_grid
from tracoco.scans.stored import (
    Stored,
    as_image,
    as_label,
    describe,
    opened,
    smallest_type,
    sound_header,
    voxels_in,
)

MILLIMETRES = {"meter": 1000.0, "mm": 1.0, "micron": 0.001, "unknown": 1.0}
GEOMETRY = (
    *("qform_code", "sform_code", "quatern_b", "quatern_c", "quatern_d"),
    *("qoffset_x", "qoffset_y", "qoffset_z", "srow_x", "srow_y", "srow_z", "xyzt_units"),
)
"""Header fields that a result shares with its scan, beside the first four of `pixdim`."""
NO_TIME_STEP = (0.0, 1.0)
"""What programs write as the step of a fourth axis that has none, beside a unit of time."""

Header = Any  # nibabel is typed in part only
IMAGES: dict[Header, Any] = {
    nibabel.Nifti1Header: nibabel.Nifti1Image,
    nibabel.Nifti2Header: nibabel.Nifti2Image,
}


def read_header(path: Path) -> ScanHeader:
    """Shape, spacing and channels, without the voxels."""
    with opened(_files(path)[0]) as file:
        header = _parse(file.read(nibabel.Nifti2Header.sizeof_hdr), path)
    return _describe(header, path)


def read_image(path: Path) -> Scan:
    """Read an image as float32 [C, X, Y, Z] in canonical order."""
    return as_image(_read(path))


def read_label(path: Path) -> LabelScan:
    """Read a label map as integers [X, Y, Z] in canonical order."""
    return as_label(_read(path))


def write_label(path: Path, label: NDArray[Any], grid: Grid) -> None:
    """Write a canonical label map on the grid of the scan that it belongs to."""
    kind = smallest_type(label)
    voxels = to_grid(label, grid).astype(kind)
    header = header_on(grid)
    header.set_data_dtype(kind)
    header.set_data_shape(voxels.shape)
    with atomic_path(path) as temporary:
        nibabel.save(IMAGES[type(header)](voxels, None, header), temporary)


def _files(path: Path) -> tuple[Path, Path]:
    """The file of the header and that of the voxels: one, or both halves of a pair."""
    if path.suffix.lower() not in {".hdr", ".img"}:
        return path, path
    halves = []
    for suffix in (".hdr", ".img"):
        names = (path.with_suffix(suffix), path.with_suffix(suffix.upper()))
        half = next((name for name in names if name.exists()), None)
        if half is None:
            raise UserError(
                f"{path} is half of a pair, and {names[0]} does not exist; put it there, or "
                "convert both to one .nii.gz file"
            )
        halves.append(half)
    return halves[0], halves[1]


def _parse(content: bytes, path: Path) -> Header:
    for kind in IMAGES:
        block = content[: kind.sizeof_hdr]
        if kind.may_contain_header(block):
            with sound_header(path, HeaderDataError):
                return kind(block)
    if nibabel.AnalyzeHeader.may_contain_header(content[:348]):
        raise UserError(
            f"{path} is an Analyze file: it does not say which side is left. Convert it to NIfTI "
            "with the program that it comes from"
        )
    raise UserError(f"{path} is not a NIfTI file, or is cut short; copy or convert it again")


def _describe(header: Header, path: Path) -> ScanHeader:
    spatial, channels = checks.split_channels(header.get_data_shape(), path)
    checks.check_voxel_type(header.get_data_dtype(), path)
    with sound_header(path, HeaderDataError):
        length_unit, time_unit = header.get_xyzt_units()
        affine = np.array(header.get_best_affine(), dtype=np.float64)
        affine[:3] *= MILLIMETRES[length_unit]
    step = float(header["pixdim"][4])
    unset = step in NO_TIME_STEP and channels <= checks.MOST_CHANNELS
    if channels > 1 and time_unit != "unknown" and not unset:
        raise checks.time_series(channels, path)
    has_geometry = bool(header["qform_code"] > 0 or header["sform_code"] > 0)
    return describe(Grid(spatial, affine, header.binaryblock, has_geometry), channels, path)


def _read(path: Path) -> Stored:
    header_file, voxel_file = _files(path)
    with opened(header_file) as file:
        header = _parse(file.read(nibabel.Nifti2Header.sizeof_hdr), path)
        about = _describe(header, path)  # what is no scan is refused before its voxels are read
        file.seek(0)
        content = file.read()  # to the end: only then has gzip checked its sum
    start = int(header.get_data_offset())
    if header_file == voxel_file:
        start = max(start, header.sizeof_hdr)  # a half of a pair under the name of a whole
    else:
        with opened(voxel_file) as file:
            content = file.read()
    shape = (*about.grid.shape, about.channels)
    voxels = voxels_in(content, start, shape, header.get_data_dtype(), voxel_file)
    with sound_header(path, HeaderDataError):
        slope, intercept = header.get_slope_inter()
    return Stored(about, np.moveaxis(voxels, 3, 0), slope or 1.0, intercept or 0.0)


def header_on(grid: Grid) -> Header:
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


def write_map(path: Path, levels: NDArray[np.uint8], step: float, grid: Grid) -> None:
    """Write canonical levels [X, Y, Z], or [K, X, Y, Z] as a 4D file, on the grid of a scan.

    Every program that knows NIfTI multiplies the levels by `step`.
    """
    volumes = levels if levels.ndim == 4 else levels[None]
    header = header_on(grid)
    header.set_data_dtype(np.uint8)
    header.set_data_shape(grid.shape if levels.ndim == 3 else (*grid.shape, len(volumes)))
    header.set_slope_inter(step, 0)
    header["vox_offset"] = header.single_vox_offset
    # One volume at a time: a large scan of many classes is not copied as a whole. The lowest level
    # of compression is several times as fast as the default, and its files hardly larger.
    with atomic_path(path) as temporary, gzip.open(temporary, "wb", compresslevel=1) as file:
        file.write(header.binaryblock.ljust(header.single_vox_offset, b"\0"))
        for volume in volumes:
            file.write(to_grid(volume, grid).tobytes("F"))
