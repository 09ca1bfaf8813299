"""Read and write scans by the suffix of their file; a new format is one row of `FORMATS`."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from tracoco.errors import UserError
from tracoco.scans import nifti
from tracoco.scans.scan import Grid, LabelScan, Scan, ScanHeader


@dataclass(frozen=True, slots=True)
class Format:
    """What the package asks of a file format."""

    suffixes: tuple[str, ...]
    """The longest first, in lower case."""
    read_header: Callable[[Path], ScanHeader]
    read_image: Callable[[Path], Scan]
    read_label: Callable[[Path], LabelScan]
    write_label: Callable[[Path, NDArray[Any], Grid], None]


FORMATS = (
    Format(
        nifti.SUFFIXES, nifti.read_header, nifti.read_image, nifti.read_label, nifti.write_label
    ),
)


SUFFIXES = tuple(suffix for known in FORMATS for suffix in known.suffixes)


def is_scan(path: Path) -> bool:
    """Whether the suffix is one of a known format."""
    return _match(path) is not None


def scans_in(folder: Path) -> list[Path]:
    """The scans of a folder, sorted; a hidden file, e.g. ._scan.nii.gz, is another program's."""
    return sorted(f for f in folder.iterdir() if is_scan(f) and not f.name.startswith("."))


def scan_stem(path: Path) -> str:
    """The file's name without the suffix of its format: `a.nii.gz` gives `a`."""
    _, suffix = _known(path)
    return path.name[: -len(suffix)]


def read_image(path: Path) -> Scan:
    """Read an image, float32 [C, X, Y, Z] in canonical order."""
    return _known(path)[0].read_image(path)


def read_label(path: Path) -> LabelScan:
    """Read a label map, integer [X, Y, Z] in canonical order."""
    return _known(path)[0].read_label(path)


def read_grid(path: Path) -> ScanHeader:
    """Read shape, spacing and channels, but no voxel."""
    return _known(path)[0].read_header(path)


def write_label(path: Path, label: NDArray[Any], grid: Grid) -> None:
    """Write a canonical [X, Y, Z] label map on the grid of the scan that it belongs to."""
    _known(path)[0].write_label(path, label, grid)


def _match(path: Path) -> tuple[Format, str] | None:
    name = path.name.lower()
    found = ((f, s) for f in FORMATS for s in f.suffixes if name.endswith(s))
    return next(found, None)


def _known(path: Path) -> tuple[Format, str]:
    match = _match(path)
    if match is None:
        raise UserError(
            f"{path} is of no known format; known are {', '.join(SUFFIXES)}. Convert it to one"
        )
    return match
