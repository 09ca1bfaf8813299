"""Read and write scans, whatever their format, which their names tell."""

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from tracoco.errors import UserError
from tracoco.scans.scan import Grid, LabelScan, Scan, ScanHeader, Structure, check_same_grid


class FormatModule(Protocol):
    """What the package asks of a format; the last four only where its row says so."""

    def read_header(self, path: Path, /) -> ScanHeader:
        """Shape, spacing and channels, without the voxels."""

    def read_image(self, path: Path, /) -> Scan:
        """An image, float32 [C, X, Y, Z] in canonical order."""

    def read_label(self, path: Path, /) -> LabelScan:
        """A label map, integers [X, Y, Z] in canonical order."""

    def write_label(
        self, path: Path, label: NDArray[Any], grid: Grid, structures: Sequence[Structure], /
    ) -> None:
        """Write a canonical label map on a grid: of rows with `written` suffixes."""

    def read_structures(self, path: Path, /) -> tuple[Structure, ...]:
        """The structures that a label names, without its voxels: of rows with `names`."""

    def has_label(self, path: Path, /) -> bool:
        """Whether a file holds a label: of rows with `label_inside`."""

    def is_series(self, path: Path, /) -> bool:
        """Whether a folder or zip is a scan: of the row without suffixes."""


@dataclass(frozen=True, slots=True)
class Format:
    """A file format: the module that reads it, imported only when such a file is met."""

    name: str
    suffixes: tuple[str, ...]
    """The longest first, in lower case; none where a scan is a folder or a zip."""
    written: tuple[str, ...] = ()
    """Suffixes that labels can be written with."""
    label_inside: bool = False
    """Whether the file of an image may hold its label too."""
    names: bool = False
    """Whether the header of a label may name its structures."""

    @property
    def module(self) -> FormatModule:
        """The module, and with it the library that it needs."""
        return cast("FormatModule", import_module(f"tracoco.scans.{self.name}"))

    def suffix_of(self, path: Path) -> str | None:
        """The suffix by which a path is of this format, or None if it is not."""
        name = path.name.lower()
        if self.suffixes:
            return next((suffix for suffix in self.suffixes if name.endswith(suffix)), None)
        packed = name.endswith(".zip") and path.is_file()
        if (packed or path.is_dir()) and self.module.is_series(path):
            return ".zip" if packed else ""
        return None


SEGMENTATION = ".seg.nrrd"
"""Suffix of the segmentations of 3D Slicer: never an image."""

FORMATS = (
    Format("nifti", (".nii.gz", ".nii", ".hdr", ".img"), written=(".nii.gz", ".nii")),
    Format("nrrd", (SEGMENTATION, ".nrrd", ".nhdr"), written=(SEGMENTATION, ".nrrd"), names=True),
    Format("metaimage", (".mha", ".mhd"), written=(".mha",)),
    Format("freesurfer", (".mgz", ".mgh")),
    Format("arrays", (".hdf5", ".h5", ".npz", ".npy"), label_inside=True),
    Format("masks", (), names=True),
    Format("dicom", (), names=True),
)


SUFFIXES = tuple(suffix for known in FORMATS for suffix in known.suffixes)
WRITTEN = tuple(suffix for known in FORMATS for suffix in known.written)


def is_scan(path: Path) -> bool:
    """Whether the suffix is one of a known format, or the path is a DICOM series."""
    return _match(path) is not None


def scans_in(folder: Path) -> list[Path]:
    """The files and series of a folder, sorted; a series is one scan, whatever files it has.

    A hidden file, e.g. ._scan.nii.gz, is another program's.
    """
    entries = (entry for entry in folder.iterdir() if not entry.name.startswith("."))
    return sorted(entry for entry in entries if is_scan(entry) and not _is_second_half(entry))


def scan_stem(path: Path) -> str:
    """The name without the suffix of its format: `a.nii.gz` gives `a`."""
    _, suffix = _known(path)
    name = path.absolute().name
    return name[: len(name) - len(suffix)]


HDF5_ENDING = re.compile(r"(_mri_norm2|_norm)$")
"""What the common HDF5 files have behind the name of the case."""


def case_name(file: Path) -> str:
    """The case that a scan is of: the name of its file, or of its folder if all are called alike.

    The endings of the common HDF5 files are no part of a name.
    """
    if file.name == "mri_norm2.h5":
        return file.absolute().parent.name
    return HDF5_ENDING.sub("", scan_stem(file)) if file.suffix == ".h5" else scan_stem(file)


@contextmanager
def _guarded(path: Path) -> Iterator[None]:
    """Turn whatever a reader or its library raises for damaged bytes into one line.

    What libraries raise for them has no end, `RecursionError` and `struct.error` among it. Nothing
    of the text of the error is shown, since it may repeat what a header says of a patient. In the
    development mode of Python (`python -X dev`) such an error passes as it is.
    """
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise UserError(f"{path} is no file; give a scan")  # a pipe would never end
    try:
        with np.errstate(all="ignore"):  # what is no number is refused by the checks
            yield
    except UserError:
        raise
    except MemoryError as error:
        raise UserError(
            f"{path} does not fit into memory; crop or resample it, or use a machine with more"
        ) from error
    except Exception as error:
        if sys.flags.dev_mode:
            raise
        raise UserError(
            f"{path} cannot be read ({type(error).__name__}): it is damaged or of an unknown kind; "
            "copy it again, or save it anew with the program that it comes from"
        ) from error


def has_label(path: Path) -> bool:
    """Whether the file of an image holds its label too; no voxel is read."""
    with _guarded(path):
        known, _ = _known(path)
        return known.label_inside and known.module.has_label(path)


def read_image(path: Path) -> Scan:
    """Read an image, float32 [C, X, Y, Z] in canonical order."""
    with _guarded(path):
        return _known(path)[0].module.read_image(path)


def read_images(paths: Sequence[Path]) -> Scan:
    """Read the channels of one scan from several files; the first file gives grid and source."""
    first = read_image(paths[0])
    if len(paths) == 1:  # to concatenate a single one would be to copy the scan
        return first
    arrays = [first.array]
    for path in paths[1:]:
        other = read_image(path)
        check_same_grid(first.header, other.header)
        arrays.append(other.array)
    return replace(first, array=np.concatenate(arrays))


def read_label(path: Path) -> LabelScan:
    """Read a label map, integer [X, Y, Z] in canonical order."""
    with _guarded(path):
        return _known(path)[0].module.read_label(path)


def read_grid(path: Path) -> ScanHeader:
    """Read shape, spacing and channels, but no voxel."""
    with _guarded(path):
        return _known(path)[0].module.read_header(path)


def read_grids(paths: Sequence[Path]) -> ScanHeader:
    """The grid that the files of one scan share, with the channels of all; no voxel is read."""
    first, *others = (read_grid(path) for path in paths)
    for other in others:
        check_same_grid(first, other)
    return replace(first, channels=first.channels + sum(other.channels for other in others))


def may_name_structures(path: Path) -> bool:
    """Whether a label's structures are worth looking for before any voxel is read.

    Of NIfTI files only some that this package or TotalSegmentator has written name theirs.
    """
    return path.name.lower().endswith(SEGMENTATION) or path.is_dir()


def read_structures(path: Path) -> tuple[Structure, ...]:
    """The structures that a label names in its header, without its voxels; mostly none."""
    known = _known(path)[0]
    return known.module.read_structures(path) if known.names else ()


def write_label(
    path: Path, label: NDArray[Any], grid: Grid, structures: Sequence[Structure] = ()
) -> None:
    """Write a canonical [X, Y, Z] label map on the grid of the scan that it belongs to.

    Their structures are named in formats that can name them.
    """
    name = path.name.lower()
    for known in FORMATS:
        if name.endswith(known.written):
            return known.module.write_label(path, label, grid, structures)
    raise UserError(f"{path}: labels are written as {', '.join(WRITTEN)}; choose one of these")


def _match(path: Path) -> tuple[Format, str] | None:
    for known in FORMATS:
        suffix = known.suffix_of(path)
        if suffix is not None:
            return known, suffix
    return None


def _known(path: Path) -> tuple[Format, str]:
    match = _match(path)
    if match is not None:
        return match
    if path.suffix.lower() == ".dcm":
        raise UserError(
            f"{path} is one file of a DICOM series; give the folder that holds all of its files"
        )
    raise UserError(
        f"{path} is of no known format; known are {', '.join(SUFFIXES)}, and folders or zips of "
        "a DICOM series. Convert it to one"
    )


def _is_second_half(path: Path) -> bool:
    """Whether a file is the .img of a pair whose .hdr stands for both."""
    headers = (path.with_suffix(suffix) for suffix in (".hdr", ".HDR"))
    return path.suffix.lower() == ".img" and any(header.exists() for header in headers)
