"""From the numbers as a file stores them to a scan in memory, alike for every format."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracoco.errors import UserError
from tracoco.scans import checks
from tracoco.scans.scan import Grid, LabelScan, Scan, ScanHeader, canonical_geometry, to_canonical


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
