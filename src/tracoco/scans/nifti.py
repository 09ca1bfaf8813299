"""NIfTI-1 and NIfTI-2, in one file (.nii, .nii.gz) or in two (.hdr and .img)."""

import gzip
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import IO, Any
from warnings import catch_warnings, simplefilter
from xml.etree import ElementTree
from xml.etree.ElementTree import ParseError

import nibabel
import numpy as np
from nibabel.nifti1 import Nifti1Extension
from nibabel.spatialimages import HeaderDataError
from numpy.typing import NDArray

from tracoco.errors import UserError
from tracoco.files import atomic_path
from tracoco.scans.packed import opened, read_voxels
from tracoco.scans.scan import Grid, LabelScan, Scan, ScanHeader, Structure, to_grid
from tracoco.scans.segments import MOST_NAME
from tracoco.scans.stored import (
    MOST_CHANNELS,
    Stored,
    as_image,
    as_label,
    check_voxel_type,
    describe,
    smallest_type,
    sound_header,
    split_channels,
    time_series,
)

MILLIMETRES = {"meter": 1000.0, "mm": 1.0, "micron": 0.001, "unknown": 1.0}
GEOMETRY = (
    *("qform_code", "sform_code", "quatern_b", "quatern_c", "quatern_d"),
    *("qoffset_x", "qoffset_y", "qoffset_z", "srow_x", "srow_y", "srow_z", "xyzt_units"),
)
"""Header fields that a result shares with its scan, beside the first four of `pixdim`."""
NO_TIME_STEP = (0.0, 1.0)
"""What programs write as the step of a fourth axis that has none, beside a unit of time."""
MOST_EXTENSIONS = 2**20
"""Bytes before the voxels in which names of structures are looked for."""
COLOUR = ("Red", "Green", "Blue", "Alpha")
TEXTS = (0, 6, 30)
"""Codes of extensions that may hold a label table: of no kind, a comment, or Caret's own."""

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
    return as_image(_read(path)[0])


def read_label(path: Path) -> LabelScan:
    """Read a label map as integers [X, Y, Z] in canonical order."""
    stored, head = _read(path)
    return replace(as_label(stored), structures=_structures(head))


def _structures(head: bytes) -> tuple[Structure, ...]:
    """The structures that an extension of the header names, from all before the voxels.

    An extension that cannot be understood is another program's, and names none.
    """
    kind = next((kind for kind in IMAGES if kind.may_contain_header(head)), None)
    if kind is None:
        return ()
    with suppress(HeaderDataError, ValueError, ParseError), catch_warnings():
        simplefilter("ignore")  # about sizes that are no multiple of 16
        extensions = kind.from_fileobj(BytesIO(head), check=False).extensions
        contents = (each.get_content() for each in extensions if each.get_code() in TEXTS)
        return tuple(structure for content in contents for structure in _named(content))
    return ()


def _named(content: bytes | str) -> Iterator[Structure]:
    """The label table of an extension in the XML of Caret."""
    text = content.decode("utf-8") if isinstance(content, bytes) else content
    if "<CaretExtension" not in text or "<!DOCTYPE" in text:
        return
    # Without a document type there are no entities that could grow.
    for row in ElementTree.fromstring(text.strip("\0 \n")).iter("Label"):  # noqa: S314 - see above
        value, name = row.get("Key", ""), " ".join((row.text or "").split())
        if value.isdecimal() and int(value) and name:
            red, green, blue = (min(max(float(row.get(part, 0)), 0), 1) for part in COLOUR[:3])
            yield Structure(int(value), name[:MOST_NAME], (red, green, blue))


def _label_table(structures: Sequence[Structure]) -> bytes:
    """The XML that TotalSegmentator puts into its headers, for all who read names from there."""
    root = ElementTree.Element("CaretExtension")
    volume = ElementTree.SubElement(root, "VolumeInformation", Index="0")
    table = ElementTree.SubElement(volume, "LabelTable")
    for structure in structures:
        row = ElementTree.SubElement(table, "Label", Key=str(structure.value))
        for part, amount in zip(COLOUR, (*structure.shown_colour, 1.0), strict=True):
            row.set(part, f"{amount:.6g}")
        row.text = structure.name
    ElementTree.SubElement(volume, "StudyMetaDataLinkSet")
    ElementTree.SubElement(volume, "VolumeType").text = "Label"
    content: bytes = ElementTree.tostring(root, encoding="UTF-8", xml_declaration=True)
    return content


def write_label(
    path: Path, label: NDArray[Any], grid: Grid, structures: Sequence[Structure] = ()
) -> None:
    """Write a canonical label map on the grid of the scan that it belongs to.

    Names of structures go into an extension of the header.
    """
    kind = smallest_type(label)
    voxels = to_grid(label, grid).astype(kind)
    header = header_on(grid)
    header.set_data_dtype(kind)
    header.set_data_shape(voxels.shape)
    if structures:
        header.extensions.append(Nifti1Extension(0, _label_table(structures)))
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
    spatial, channels = split_channels(header.get_data_shape(), path)
    check_voxel_type(header.get_data_dtype(), path)
    with sound_header(path, HeaderDataError):
        length_unit, time_unit = header.get_xyzt_units()
        affine = np.array(header.get_best_affine(), dtype=np.float64)
        affine[:3] *= MILLIMETRES[length_unit]
    step = float(header["pixdim"][4])
    unset = step in NO_TIME_STEP and channels <= MOST_CHANNELS
    if channels > 1 and time_unit != "unknown" and not unset:
        raise time_series(channels, path)
    has_geometry = bool(header["qform_code"] > 0 or header["sform_code"] > 0)
    return describe(Grid(spatial, affine, header.binaryblock, has_geometry), channels, path)


def _read(path: Path) -> tuple[Stored, bytes]:
    """The numbers, and what the file has before them; a pair has nothing there."""
    header_file, voxel_file = _files(path)
    with opened(header_file) as file:
        header = _parse(file.read(nibabel.Nifti2Header.sizeof_hdr), path)
        about = _describe(header, path)  # what is no scan is refused before its voxels are read
        with sound_header(path, HeaderDataError):
            start = int(header.get_data_offset())
            slope, intercept = header.get_slope_inter()
        if header_file == voxel_file:
            file.seek(0)
            start = max(start, header.sizeof_hdr)  # a half of a pair under the name of a whole
            head = file.read(start) if start <= MOST_EXTENSIONS else b""
            file.seek(0)
            voxels = _voxels(file, header, about, path, start)
    if header_file != voxel_file:
        head = b""
        with opened(voxel_file) as file:
            voxels = _voxels(file, header, about, voxel_file, start)
    return Stored(about, np.moveaxis(voxels, 3, 0), slope or 1.0, intercept or 0.0), head


def _voxels(
    file: IO[bytes], header: Header, about: ScanHeader, holder: Path, skip: int
) -> NDArray[Any]:
    shape = (*about.grid.shape, about.channels)
    return read_voxels(file, shape, header.get_data_dtype(), holder, skip=skip)


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
