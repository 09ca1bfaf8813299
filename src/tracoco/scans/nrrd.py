"""NRRD, in one file (.nrrd) or with a header of its own (.nhdr)."""

import gzip
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from tracoco.errors import UserError
from tracoco.files import atomic_path
from tracoco.scans.packed import LAST, Packing, check_size, read_voxels, readable, unpacking
from tracoco.scans.scan import Affine, Grid, LabelScan, Scan, ScanHeader, Structure, to_grid
from tracoco.scans.segments import (
    Segment,
    merged_layers,
    parse_segments,
    segment_lines,
    structures_of,
)
from tracoco.scans.stored import (
    Stored,
    as_image,
    as_label,
    check_voxel_type,
    data_file,
    describe,
    smallest_type,
    sound_header,
    time_series,
)

TO_RAS = {
    **dict.fromkeys(("right-anterior-superior", "ras"), (1, 1, 1)),
    **dict.fromkeys(("left-anterior-superior", "las"), (-1, 1, 1)),
    **dict.fromkeys(("left-posterior-superior", "lps"), (-1, -1, 1)),
}
MILLIMETRES = {"mm": 1.0, "m": 1000.0, "cm": 10.0, "um": 0.001, "": 1.0}
IN_SPACE = {"domain", "space", "???", "none"}
"""Kinds of axes that lie in space where the directions do not say otherwise."""
LONGEST_LINE = 100_000
"""Bytes; a line that is longer is no header's."""


@dataclass(frozen=True, slots=True, eq=False)
class NrrdHeader:
    """What the header says; `sizes` has the axis that runs fastest first."""

    fields: dict[str, str]
    """By name in lower case without spaces, since `data file` and `datafile` are the same."""
    sizes: tuple[int, ...]
    spatial: tuple[int, ...]
    """The axes that lie in space."""
    affine: Affine
    has_geometry: bool
    pairs: dict[str, str]
    """What other programs keep in the header (`key:=value`), e.g. the segments of 3D Slicer."""

    @property
    def others(self) -> tuple[int, ...]:
        """The axes that do not lie in space; at most one of them is longer than 1."""
        return tuple(axis for axis in range(len(self.sizes)) if axis not in self.spatial)


def parse_header(file: IO[bytes], path: Path) -> NrrdHeader:
    """Read up to the empty line that ends a header, and refuse what cannot be placed."""
    if not file.readline(LONGEST_LINE).startswith(b"NRRD000"):
        raise UserError(f"{path} is not an NRRD file; copy or convert it again")
    fields, pairs = {}, {}
    while line := file.readline(LONGEST_LINE).decode("utf-8", "replace").strip():
        name, colon, value = line.partition(":")
        if line.startswith("#") or not colon:
            continue
        if value.startswith("="):
            pairs[name.strip()] = value[1:].strip()
        else:
            fields[name.replace(" ", "").lower()] = value.strip()
    with sound_header(path):
        sizes = tuple(int(size) for size in fields["sizes"].split())
        kinds = fields.get("kinds", "").lower().split() or ["???"] * len(sizes)
        directions = _directions(fields)
        if not len(sizes) == int(fields["dimension"]) == len(kinds) == len(directions or sizes):
            raise ValueError("its axes do not have a size, a kind and a direction each")
    spatial = _spatial_axes(kinds, directions)
    if len(spatial) != 3 or min(sizes) < 1:
        raise UserError(
            f"{path} has {len(spatial)} axes in space, and the sizes {sizes}; a scan has 3. Stack "
            "its slices, or mark an axis of channels by 'kinds: ... list'"
        )
    others = [axis for axis in range(len(sizes)) if axis not in spatial and sizes[axis] != 1]
    for axis in others:
        _check_kind(kinds[axis], sizes[axis], path)
    if len(others) > 1:
        raise UserError(f"{path} has {len(others)} axes beside those of space; save one volume")
    affine = _affine(fields, directions, spatial, path)
    return NrrdHeader(fields, sizes, spatial, affine, directions is not None, pairs)


def _directions(fields: dict[str, str]) -> list[tuple[float, ...] | None] | None:
    """The step along each axis, None for one that is not in space; None if the file has none."""
    if "spacedirections" not in fields:
        return None
    words = re.findall(r"none|\([^)]*\)", fields["spacedirections"])
    vectors = [None if word == "none" else _vector(word) for word in words]
    return [None if vector is None or np.isnan(vector).all() else vector for vector in vectors]


def _vector(text: str) -> tuple[float, ...]:
    vector = tuple(float(number) for number in text.strip("() ").split(","))
    if len(vector) != 3:
        raise ValueError(f"{text} is no vector in space")
    return vector


def _spatial_axes(
    kinds: list[str], directions: list[tuple[float, ...] | None] | None
) -> tuple[int, ...]:
    if directions is not None:
        return tuple(axis for axis, vector in enumerate(directions) if vector is not None)
    return tuple(axis for axis, kind in enumerate(kinds) if kind in IN_SPACE)


def _check_kind(kind: str, size: int, path: Path) -> None:
    """Refuse an axis whose values are no channels."""
    if kind == "time":
        raise time_series(size, path)
    if "color" in kind:
        check_voxel_type(np.dtype([(name, "u1") for name in "RGB"]), path)
    if kind == "complex":
        check_voxel_type(np.dtype(np.complex64), path)


def _affine(
    fields: dict[str, str],
    directions: list[tuple[float, ...] | None] | None,
    spatial: tuple[int, ...],
    path: Path,
) -> Affine:
    """From voxels to RAS millimetres; without directions only as far as spacings are known."""
    space = fields.get("space", "").lower()
    affine = np.eye(4)
    if directions is None and not space:
        with sound_header(path):
            spacings = [float(side) for side in fields.get("spacings", "").split()]
            spacing = [spacings[axis] if spacings else 1.0 for axis in spatial]
        affine[:3, :3] = np.diag([side if np.isfinite(side) and side else 1.0 for side in spacing])
        return affine
    if directions is None:
        raise UserError(
            f"{path} names the space {space}, but has no 'space directions': nobody knows where "
            "its axes point. Save it again with them, or without the space"
        )
    if space not in TO_RAS:
        raise UserError(
            f"{path} has the space '{space}', which does not say where left and right are; write "
            "the right one into its header, e.g. 'space: left-posterior-superior'"
        )
    with sound_header(path):
        units = set(re.findall(r'"([^"]*)"', fields.get("spaceunits", ""))) or {""}
        (scale,) = {MILLIMETRES[unit] for unit in units}
        origin = _vector(fields.get("spaceorigin", "(0,0,0)"))
    affine[:3] = np.array([*(directions[axis] for axis in spatial), origin], dtype=float).T * scale
    affine[:3] *= np.array(TO_RAS[space])[:, None]
    return affine


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
PACKINGS: dict[str, Packing] = {
    "raw": "raw",
    **dict.fromkeys(("gzip", "gz"), "gzip"),
    **dict.fromkeys(("bzip2", "bz2"), "bz2"),
}
TEXT = ("ascii", "text", "txt")
LONGEST_NUMBER = 32
"""Characters of a number that is written as text, with what parts it from the next."""
MOST_LINES = 10_000
"""Lines that may be left out before the voxels."""


def read_header(path: Path) -> ScanHeader:
    """Shape, spacing and channels, without the voxels."""
    with readable(path), path.open("rb") as file:
        return _describe(parse_header(file, path), path)


def read_image(path: Path) -> Scan:
    """Read an image as float32 [C, X, Y, Z] in canonical order."""
    return as_image(_read(path)[0])


def read_label(path: Path) -> LabelScan:
    """Read a label map, or a segmentation of 3D Slicer, as integers [X, Y, Z] in canonical order.

    Layers of a segmentation become one map; where segments overlap there is none.
    """
    stored, header = _read(path)
    segments = _segments(header, path)
    if segments and len(stored.voxels) > 1:
        about = replace(stored.about, channels=1)
        stored = Stored(about, merged_layers(stored.voxels, segments, path)[None])
    return replace(as_label(stored), structures=structures_of(segments))


def read_structures(path: Path) -> tuple[Structure, ...]:
    """The structures that the header names; no voxel is read."""
    with readable(path), path.open("rb") as file:
        return structures_of(_segments(parse_header(file, path), path))


def _segments(header: NrrdHeader, path: Path) -> tuple[Segment, ...]:
    layers = int(np.prod([header.sizes[axis] for axis in header.others]))
    return parse_segments(header.pairs, layers, path)


def write_label(
    path: Path, label: NDArray[Any], grid: Grid, structures: Sequence[Structure] = ()
) -> None:
    """Write a canonical label map on the grid of the scan that it belongs to.

    Structures become segments, with names and colours, as 3D Slicer and ITK-SNAP show them.
    """
    kind = np.dtype(smallest_type(label)).newbyteorder("<")
    voxels = to_grid(label, grid).astype(kind)
    lps = (np.diag([-1.0, -1, 1, 1]) @ grid.affine)[:3].T.tolist()
    *steps, origin = (f"({','.join(map(repr, vector))})" for vector in lps)
    header = (
        f"NRRD0004\ntype: {kind.name}\ndimension: 3\nspace: left-posterior-superior\n"
        f"sizes: {' '.join(map(str, grid.shape))}\nspace directions: {' '.join(steps)}\n"
        f"kinds: domain domain domain\nendian: little\nencoding: gzip\nspace origin: {origin}\n"
        f"{segment_lines(structures, grid.shape)}\n"
    )
    with atomic_path(path) as temporary:
        temporary.write_bytes(header.encode() + gzip.compress(voxels.tobytes("F")))


def _describe(header: NrrdHeader, path: Path) -> ScanHeader:
    _voxel_type(header, path)
    first, second, third = (header.sizes[axis] for axis in header.spatial)
    grid = Grid((first, second, third), header.affine, has_geometry=header.has_geometry)
    return describe(grid, int(np.prod([header.sizes[axis] for axis in header.others])), path)


def _read(path: Path) -> tuple[Stored, NrrdHeader]:
    with readable(path), path.open("rb") as file:
        header = parse_header(file, path)
        start = file.tell()
    about = _describe(header, path)
    name = header.fields.get("datafile")
    holder, start = (data_file(path, name), 0) if name is not None else (path, start)
    with readable(holder), holder.open("rb") as file:
        file.seek(start)
        voxels = _read_voxels(file, header, holder)
    turned = voxels.transpose((*header.others, *header.spatial))
    return Stored(about, turned.reshape(about.channels, *about.grid.shape)), header


def _read_voxels(file: IO[bytes], header: NrrdHeader, holder: Path) -> NDArray[Any]:
    """The voxels that a file has from its present position on; lines are left out packed."""
    encoding = header.fields.get("encoding", "").lower()
    if encoding not in (*PACKINGS, *TEXT):
        raise UserError(
            f"{holder} is encoded as '{encoding}'; save it again with the encoding raw or gzip"
        )
    with sound_header(holder):
        lines, skip = (int(header.fields.get(key, 0)) for key in ("lineskip", "byteskip"))
        if not 0 <= lines <= MOST_LINES:
            raise ValueError(f"{lines} lines to leave out")
    for _ in range(lines):
        file.readline(LONGEST_LINE)
    if encoding in TEXT:
        return _read_text(file, header, holder)
    if skip == LAST and encoding != "raw":
        skip = 0
    stream = unpacking(file, PACKINGS[encoding])
    return read_voxels(stream, header.sizes, _voxel_type(header, holder), holder, skip=skip)


def _read_text(file: IO[bytes], header: NrrdHeader, holder: Path) -> NDArray[Any]:
    """The voxels from decimal numbers; no more is read than so many numbers can take."""
    kind, count = _voxel_type(header, holder), prod(header.sizes)
    check_size(3 * LONGEST_NUMBER * count, holder)  # the text, its words and the numbers
    words = file.read(LONGEST_NUMBER * count + 1).split()
    if len(words) != count:
        raise UserError(
            f"{holder} holds {len(words)} numbers, its header declares {count}; copy it again, or "
            "save it with the encoding gzip"
        )
    with sound_header(holder, OverflowError):
        return np.array(words).astype(kind).reshape(header.sizes, order="F")


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
