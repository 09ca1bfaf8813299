"""NRRD, in one file (.nrrd) or with a header of its own (.nhdr)."""

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracoco.errors import UserError
from tracoco.files import atomic_path
from tracoco.scans.content import data_file, readable, sound_header, voxels_in
from tracoco.scans.nrrd_header import NrrdHeader, parse_header
from tracoco.scans.scan import Grid, LabelScan, Scan, ScanHeader, to_grid
from tracoco.scans.stored import Stored, as_image, as_label, describe, smallest_type

INTEGER_SIZES = {
    "char": 1,
    "short": 2,
    "int": 4,
    "longlong": 8,
    "int8": 1,
    "int16": 2,
    "int32": 4,
    "int64": 8,
}
FLOATS = {"float": "f4", "double": "f8"}
UNPACK: dict[str, Callable[[bytes], bytes]] = {
    "raw": bytes,
    "gzip": gzip.decompress,
    "gz": gzip.decompress,
}


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
    voxels = to_grid(label, grid).astype(kind)
    lps = (np.diag([-1.0, -1, 1, 1]) @ grid.affine)[:3].T.tolist()
    *steps, origin = (f"({','.join(map(repr, vector))})" for vector in lps)
    header = (
        f"NRRD0004\ntype: {kind.name}\ndimension: 3\nspace: left-posterior-superior\n"
        f"sizes: {' '.join(map(str, grid.shape))}\nspace directions: {' '.join(steps)}\n"
        f"kinds: domain domain domain\nendian: little\nencoding: gzip\nspace origin: {origin}\n\n"
    )
    with atomic_path(path) as temporary:
        temporary.write_bytes(header.encode() + gzip.compress(voxels.tobytes("F")))


def _describe(header: NrrdHeader, path: Path) -> ScanHeader:
    _voxel_type(header, path)
    first, second, third = (header.sizes[axis] for axis in header.spatial)
    grid = Grid((first, second, third), header.affine, placed=header.placed)
    return describe(grid, int(np.prod([header.sizes[axis] for axis in header.others])), path)


def _read(path: Path) -> Stored:
    with readable(path), path.open("rb") as file:
        header = parse_header(file, path)
        about = _describe(header, path)
        holder = path
        if name := header.fields.get("datafile"):
            holder = data_file(path, name)
            content = holder.read_bytes()
        else:
            content = file.read()
    content = _unpacked(content, header, holder)
    with sound_header(path):
        skipped = int(header.fields.get("byteskip", 0))
    voxels = voxels_in(content, skipped, header.sizes, _voxel_type(header, path), holder)
    turned = voxels.transpose((*header.others, *header.spatial))
    return Stored(about, turned.reshape(about.channels, *about.grid.shape))


def _unpacked(content: bytes, header: NrrdHeader, holder: Path) -> bytes:
    encoding = header.fields.get("encoding", "").lower()
    if encoding not in UNPACK:
        raise UserError(
            f"{holder} is encoded as '{encoding}'; save it again with the encoding raw or gzip"
        )
    with sound_header(holder):
        lines = int(header.fields.get("lineskip", 0))
    for _ in range(lines):
        content = content.partition(b"\n")[2]
    with readable(holder):
        return UNPACK[encoding](content)


def _voxel_type(header: NrrdHeader, path: Path) -> np.dtype[Any]:
    """The type of the voxels, from C's name of it: `unsigned short int`, `ushort`, `uint16_t`."""
    with sound_header(path):
        name = "".join(header.fields["type"].lower().removesuffix("_t").split())
        order = ">" if header.fields.get("endian") == "big" else "<"
        if name in FLOATS:
            return np.dtype(order + FLOATS[name])
        kind = "u" if name.startswith("u") else "i"
        integer = name.removeprefix("unsigned").removeprefix("signed").removeprefix("u")
        if integer not in INTEGER_SIZES:
            integer = integer.removesuffix("int")  # as in `short int`
        return np.dtype(f"{order}{kind}{INTEGER_SIZES[integer]}")
