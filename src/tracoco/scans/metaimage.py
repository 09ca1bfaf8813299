"""MetaImage, in one file (.mha) or with a header of its own (.mhd)."""

import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracoco.files import atomic_path
from tracoco.scans.content import data_file, readable, voxels_in
from tracoco.scans.metaimage_header import LPS_TO_RAS, TYPES, MetaHeader, parse_header
from tracoco.scans.scan import Grid, LabelScan, Scan, ScanHeader, to_grid
from tracoco.scans.stored import Stored, as_image, as_label, describe, smallest_type


def read_header(path: Path) -> ScanHeader:
    """Shape, spacing and channels, without the voxels."""
    with readable(path), path.open("rb") as file:
        return _describe(parse_header(file, path), path)


def read_image(path: Path) -> Scan:
    """Read an image as float32 [C, X, Y, Z] in canonical order."""
    return as_image(_read(path))


def read_label(path: Path) -> LabelScan:
    """Read a label map as integers [X, Y, Z] in canonical order."""
    return as_label(_read(path))


def write_label(path: Path, label: NDArray[Any], grid: Grid) -> None:
    """Write a canonical label map on the grid of the scan that it belongs to."""
    kind = np.dtype(smallest_type(label)).newbyteorder("<")
    content = zlib.compress(to_grid(label, grid).astype(kind).tobytes("F"))
    lps = LPS_TO_RAS @ grid.affine
    spacing = np.linalg.norm(lps[:3, :3], axis=0)
    directions = (lps[:3, :3] / spacing).T.ravel()  # one axis after the other
    element = next(name for name, code in TYPES.items() if code == kind.str[1:])
    header = (
        "ObjectType = Image\nNDims = 3\nBinaryData = True\nBinaryDataByteOrderMSB = False\n"
        f"CompressedData = True\nCompressedDataSize = {len(content)}\n"
        f"TransformMatrix = {_numbers(directions)}\nOffset = {_numbers(lps[:3, 3])}\n"
        f"ElementSpacing = {_numbers(spacing)}\nDimSize = {' '.join(map(str, grid.shape))}\n"
        f"ElementType = MET_{element}\nElementDataFile = LOCAL\n"
    )
    with atomic_path(path) as temporary:
        temporary.write_bytes(header.encode() + content)


def _numbers(values: NDArray[np.float64]) -> str:
    return " ".join(map(repr, values.tolist()))


def _describe(header: MetaHeader, path: Path) -> ScanHeader:
    return describe(Grid(header.shape, header.affine, placed=header.placed), header.channels, path)


def _read(path: Path) -> Stored:
    with readable(path), path.open("rb") as file:
        header = parse_header(file, path)
        about = _describe(header, path)
        holder = path if header.data.upper() == "LOCAL" else data_file(path, header.data)
        content = file.read() if holder == path else holder.read_bytes()
        if header.packed:
            content = zlib.decompress(content)
    shape = (header.channels, *header.shape)
    return Stored(about, voxels_in(content, header.skipped, shape, header.dtype, holder))
