"""MetaImage, in one file (.mha) or with a header of its own (.mhd)."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from tracoco.errors import UserError
from tracoco.files import atomic_path
from tracoco.scans.packed import LAST, read_voxels, readable, unpacking
from tracoco.scans.scan import (
    Affine,
    Grid,
    LabelScan,
    Scan,
    ScanHeader,
    Shape,
    Structure,
    to_grid,
)
from tracoco.scans.stored import (
    Stored,
    as_image,
    as_label,
    data_file,
    describe,
    smallest_type,
    sound_header,
    split_channels,
    time_series,
)

TYPES = {
    "UCHAR": "u1",
    "CHAR": "i1",
    "SHORT": "i2",
    "USHORT": "u2",
    "INT": "i4",
    "UINT": "u4",
    "LONG": "i4",
    "ULONG": "u4",
    "LONG_LONG": "i8",
    "ULONG_LONG": "u8",
    "FLOAT": "f4",
    "DOUBLE": "f8",
}
"""By the name after `MET_`; the format's LONG has 4 bytes everywhere."""
MILLIMETRES = {"mm": 1.0, "cm": 10.0, "um": 0.001, "?": 1.0}
LPS_TO_RAS = np.diag([-1.0, -1, 1, 1])
LONGEST_LINE = 10_000
"""Bytes; a line that is longer is no header's."""


@dataclass(frozen=True, slots=True, eq=False)
class MetaHeader:
    """What the header says."""

    shape: Shape
    channels: int
    """They run fastest: the values of one voxel lie beside each other."""
    dtype: np.dtype[Any]
    affine: Affine
    has_geometry: bool
    packed: bool
    skipped: int
    """Bytes before the voxels; -1 if the voxels are the last bytes of the file."""
    data: str
    """The name of the file with the voxels, or LOCAL."""


def parse_header(file: IO[bytes], path: Path) -> MetaHeader:
    """Read up to the line that names the data, which is the last, and refuse what has no place."""
    fields: dict[str, str] = {}
    while "elementdatafile" not in fields:
        name, sign, value = file.readline(LONGEST_LINE).decode("utf-8", "replace").partition("=")
        if not sign:
            raise UserError(f"{path} is not a MetaImage file, or is cut short; copy it again")
        fields[name.strip().lower()] = value.strip()
    with sound_header(path):
        sizes = tuple(int(size) for size in fields["dimsize"].split())
        shape, volumes = split_channels(sizes, path)
        if volumes > 1:  # channels have a field of their own
            raise time_series(volumes, path)
        if fields.get("binarydata", "True").lower() == "false":
            raise ValueError("its voxels are text, BinaryData = False")
        order = ">" if _true(fields, "binarydatabyteordermsb", "elementbyteordermsb") else "<"
        element = fields["elementtype"].removeprefix("MET_").removesuffix("_ARRAY")
        return MetaHeader(
            shape,
            int(fields.get("elementnumberofchannels", 1)),
            np.dtype(order + TYPES[element]),
            _affine(fields, len(sizes)),
            has_geometry={"transformmatrix", "elementspacing"} <= fields.keys(),
            packed=_true(fields, "compresseddata"),
            skipped=int(fields.get("headersize", 0)),
            data=fields["elementdatafile"],
        )


def _true(fields: dict[str, str], *names: str) -> bool:
    return any(fields.get(name, "").lower() in {"true", "1"} for name in names)


def _affine(fields: dict[str, str], axes: int) -> Affine:
    """From voxels to RAS millimetres; what the header does not say is taken as unturned, 1 mm."""
    sizes = fields.get("elementspacing", fields.get("elementsize", " ".join(["1"] * axes)))
    offset = fields.get("offset", fields.get("position", " ".join(["0"] * axes)))
    spacing, origin = (np.array(text.split(), dtype=float)[:3] for text in (sizes, offset))
    # The direction of the first axis comes first, then that of the second: not row by row.
    turn = np.eye(axes)
    if "transformmatrix" in fields:
        turn = np.array(fields["transformmatrix"].split(), dtype=float).reshape(axes, axes).T
    lps = np.eye(4)
    lps[:3, :3] = turn[:3, :3] * spacing
    lps[:3, 3] = origin
    lps[:3] *= MILLIMETRES[fields.get("distanceunits", "mm")]
    return LPS_TO_RAS @ lps if "transformmatrix" in fields else lps


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


def write_label(path: Path, label: NDArray[Any], grid: Grid, _: Sequence[Structure] = ()) -> None:
    """Write a canonical label map on the grid of the scan that it belongs to, without names."""
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
    return describe(
        Grid(header.shape, header.affine, has_geometry=header.has_geometry), header.channels, path
    )


def _read(path: Path) -> Stored:
    with readable(path), path.open("rb") as file:
        header = parse_header(file, path)
        start = file.tell()
    about = _describe(header, path)
    local = header.data.upper() == "LOCAL"
    holder = path if local else data_file(path, header.data)
    shape = (header.channels, *header.shape)
    skip = 0 if header.packed and header.skipped == LAST else header.skipped
    with readable(holder), holder.open("rb") as file:
        file.seek(start if local else 0)
        stream = unpacking(file, "zlib" if header.packed else "raw")
        return Stored(about, read_voxels(stream, shape, header.dtype, holder, skip=skip))
