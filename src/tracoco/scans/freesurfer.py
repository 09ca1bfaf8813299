"""FreeSurfer's volumes (.mgz, .mgh)."""

from pathlib import Path
from typing import Any

import numpy as np
from nibabel.freesurfer.mghformat import DATA_OFFSET, MGHError, MGHHeader

from tracoco.errors import UserError
from tracoco.scans.packed import opened, read_voxels
from tracoco.scans.scan import Grid, LabelScan, Scan, ScanHeader
from tracoco.scans.stored import (
    MOST_CHANNELS,
    Stored,
    as_image,
    as_label,
    describe,
    sound_header,
    split_channels,
    time_series,
)

VERSION = (1).to_bytes(4, "big")
HAS_GEOMETRY = slice(28, 30)
"""The bytes that say whether the geometry is meant; nibabel replaces it by a default if not."""

MOST_TAGS = 16 * 2**20
"""Bytes behind the voxels: times of the scanner, colour tables, and which commands were run."""

Header = Any  # nibabel is typed in part only


def read_header(path: Path) -> ScanHeader:
    """Shape, spacing and channels, without the voxels."""
    with opened(path) as file:
        return _describe(file.read(DATA_OFFSET), path)[0]


def read_image(path: Path) -> Scan:
    """Read an image as float32 [C, X, Y, Z] in canonical order."""
    return as_image(_read(path))


def read_label(path: Path) -> LabelScan:
    """Read a label map as integers [X, Y, Z] in canonical order."""
    return as_label(_read(path))


def _describe(block: bytes, path: Path) -> tuple[ScanHeader, np.dtype[Any]]:
    if not block.startswith(VERSION) or len(block) < DATA_OFFSET:
        raise UserError(f"{path} is not an MGH file, or is cut short; copy or convert it again")
    with sound_header(path, MGHError):
        header: Header = MGHHeader(block, check=False)
        dtype: np.dtype[Any] = header.get_data_dtype().newbyteorder(">")
        affine = np.array(header.get_affine(), dtype=np.float64)
    shape, frames = split_channels(tuple(map(int, header.get_data_shape())), path)
    if frames > MOST_CHANNELS:  # the header has no other sign of time
        raise time_series(frames, path)
    has_geometry = any(block[HAS_GEOMETRY])
    return describe(Grid(shape, affine, has_geometry=has_geometry), frames, path), dtype


def _read(path: Path) -> Stored:
    with opened(path) as file:
        about, dtype = _describe(file.read(DATA_OFFSET), path)
        shape = (*about.grid.shape, about.channels)
        file.seek(0)
        voxels = read_voxels(file, shape, dtype, path, skip=DATA_OFFSET, trailing=MOST_TAGS)
    return Stored(about, np.moveaxis(voxels, 3, 0))
