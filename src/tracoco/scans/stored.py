"""From the bytes of a file to a scan in memory, alike for every format.

What is missing, damaged or cut short is named.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracoco.errors import UserError
from tracoco.scans import checks
from tracoco.scans.scan import Grid, LabelScan, Scan, ScanHeader, canonical_geometry, to_canonical


@contextmanager
def sound_header(path: Path, *kinds: type[Exception]) -> Iterator[None]:
    """Name the file whose header holds what cannot be understood."""
    expected: tuple[type[Exception], ...] = (KeyError, ValueError, OverflowError, *kinds)
    try:
        yield
    except expected as error:
        reason = f"missing or unknown: {error}" if isinstance(error, KeyError) else str(error)
        raise UserError(
            f"{path} has a damaged header ({reason}); copy it again, or save it anew with the "
            "program that it comes from"
        ) from error


def data_file(header: Path, name: str) -> Path:
    """The file that a header of its own names as the one with the voxels."""
    words = name.split()
    if not words:
        raise UserError(
            f"{header} has a damaged header: it does not name the file of its voxels; copy it again"
        )
    if words[0].upper().startswith("LIST") or "%" in name:
        raise UserError(
            f"{header} spreads its voxels over several files ('{name}'); save it as one file"
        )
    path = beside(header, name)
    if not path.is_file():
        raise UserError(
            f"{header} is a header without data: its voxels are in {path}, which does not exist. "
            "Put that file there, or save both as one file"
        )
    return path


def beside(header: Path, name: str) -> Path:
    """The path that a header names, which must lie in the header's folder or below it.

    Otherwise a header from elsewhere would show any file of its reader as a scan. Links are
    followed first: where they end counts.
    """
    place = PurePosixPath(name.replace("\\", "/"))
    absolute = place.is_absolute() or PureWindowsPath(name).anchor or "\0" in name
    path = header.parent / place
    if absolute or ".." in place.parts or not _is_below(path, header.parent):
        raise UserError(
            f"{header} has its voxels in '{name}', which does not lie beside it; put that file "
            "into the folder of the header, and its bare name into the header"
        )
    return path


def _is_below(path: Path, folder: Path) -> bool:
    try:
        return path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError, ValueError):  # a ring of links, or no path at all
        return False


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """The numbers of a file, [C, X, Y, Z] in the file's own axis order, and where they lie."""

    about: ScanHeader
    voxels: NDArray[Any]
    slope: float = 1.0
    intercept: float = 0.0

    @property
    def scaled(self) -> bool:
        """Whether the stored numbers stand for others."""
        return (self.slope, self.intercept) != (1.0, 0.0)


def describe(grid: Grid, channels: int, path: Path) -> ScanHeader:
    """What there is to know of a file before its voxels; a grid that is no grid is refused."""
    checks.check_affine(grid.affine, path)
    return ScanHeader(*canonical_geometry(grid), channels, grid, path)


def as_image(stored: Stored) -> Scan:
    """An image, float32 [C, X, Y, Z] in canonical order."""
    about = stored.about
    with np.errstate(over="ignore"):  # what overflows is infinite, and refused below
        array = to_canonical(stored.voxels, about.grid).astype(np.float32, copy=False)
    if stored.scaled:
        array = array * np.float32(stored.slope) + np.float32(stored.intercept)
    checks.check_finite(array, about.source)
    return Scan(array, about.affine, about.spacing_mm, about.grid, about.source)


def as_label(stored: Stored) -> LabelScan:
    """A label map, integers [X, Y, Z] in canonical order."""
    about = stored.about
    if about.channels != 1:
        raise UserError(
            f"{about.source} has {about.channels} channels; a label map is 3D with one value a "
            "voxel. Merge the channels into one map"
        )
    array = to_canonical(stored.voxels[0], about.grid)
    if stored.scaled:
        array = array * stored.slope + stored.intercept
    array = checks.as_integers(array, about.source)
    return LabelScan(array, about.affine, about.spacing_mm, about.grid, about.source)


def smallest_type(label: NDArray[Any]) -> type[np.integer[Any]]:
    """The first integer type that holds all values; types that few programs read are left out."""
    low, high = int(label.min()), int(label.max())
    kinds: tuple[type[np.integer[Any]], ...] = (np.uint8, np.int16, np.int32, np.int64)
    return next(k for k in kinds if np.iinfo(k).min <= low and high <= np.iinfo(k).max)
