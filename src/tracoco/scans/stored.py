"""From the bytes of a file to a scan in memory, alike for every format.

What is missing, damaged or cut short is named, and so is what makes a scan unusable, whatever its
format, with what its owner can do about it.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracoco.errors import UserError
from tracoco.scans.scan import (
    Affine,
    Grid,
    LabelScan,
    Scan,
    ScanHeader,
    Shape,
    canonical_geometry,
    to_canonical,
)


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
    check_affine(grid.affine, path)
    return ScanHeader(*canonical_geometry(grid), channels, grid, path)


def as_image(stored: Stored) -> Scan:
    """An image, float32 [C, X, Y, Z] in canonical order."""
    about = stored.about
    with np.errstate(over="ignore"):  # what overflows is infinite, and refused below
        array = to_canonical(stored.voxels, about.grid).astype(np.float32, copy=False)
    if stored.scaled:
        array = array * np.float32(stored.slope) + np.float32(stored.intercept)
    check_finite(array, about.source)
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
    array = as_integers(array, about.source)
    return LabelScan(array, about.affine, about.spacing_mm, about.grid, about.source)


def smallest_type(label: NDArray[Any]) -> type[np.integer[Any]]:
    """The first integer type that holds all values; types that few programs read are left out."""
    low, high = int(label.min()), int(label.max())
    kinds: tuple[type[np.integer[Any]], ...] = (np.uint8, np.int16, np.int32, np.int64)
    return next(k for k in kinds if np.iinfo(k).min <= low and high <= np.iinfo(k).max)


SHEAR_TOLERANCE = 0.01
"""Largest cosine between two axes: 0.6 degrees, far above rounding, far below a tilted gantry."""
MOST_CHANNELS = 8
"""More volumes in one file are moments or directions, which no network here takes as channels."""


def split_channels(shape: Sequence[int], path: Path) -> tuple[Shape, int]:
    """Spatial shape and number of channels of a 3D file, or of a 4D one with its channels last."""
    sizes = tuple(shape)
    while len(sizes) > 3 and sizes[-1] == 1:
        sizes = sizes[:-1]
    if len(sizes) not in (3, 4) or min(sizes) < 1:
        raise UserError(
            f"{path} has the shape {tuple(shape)}; a scan is 3D, or 4D with its channels last. "
            "Stack its slices, or choose one volume of it"
        )
    return (sizes[0], sizes[1], sizes[2]), sizes[3] if len(sizes) == 4 else 1


def check_affine(affine: Affine, path: Path) -> None:
    """Refuse a grid whose voxels have no size, or whose axes are not at right angles."""
    finite = np.nan_to_num(affine[:3, :3], nan=0, posinf=0, neginf=0)
    lengths = np.linalg.norm(finite, axis=0)
    cosines = finite / np.where(lengths > 0, lengths, 1)
    if not np.isfinite(affine).all() or abs(np.linalg.det(cosines)) < SHEAR_TOLERANCE:
        raise UserError(
            f"{path} has a singular affine, {affine[:3].tolist()}: its voxels have no volume. "
            "Copy the geometry from the scan that it was made from"
        )
    tilt = np.abs(cosines.T @ cosines - np.eye(3)).max()
    if tilt > SHEAR_TOLERANCE:
        raise UserError(
            f"{path} has a sheared affine: two of its axes are {tilt:.3f} (cosine) off a right "
            "angle, e.g. by a tilted gantry. Resample it to a grid with right angles"
        )


def time_series(volumes: int, path: Path) -> UserError:
    """The problem of a file with one volume after the other; channels would be another matter."""
    return UserError(
        f"{path} is a time series of {volumes} volumes; a scan is one. Choose one volume or their "
        "mean and save it as 3D; if they are channels, save them without a unit of time"
    )


def check_voxel_type(dtype: np.dtype[Any], path: Path) -> None:
    """Refuse voxels that are not one real number each."""
    kind = "RGB" if dtype.fields else "complex" if dtype.kind == "c" else None
    if dtype.kind not in "biufc" and not kind:
        raise UserError(
            f"{path} holds text or Python objects, which are never loaded because they could run "
            "code; save the voxels as an array of numbers"
        )
    if kind:
        raise UserError(
            f"{path} has {kind} voxels; a scan has one real number a voxel and channel. "
            "Save it as one, e.g. the magnitude or the grey value"
        )


def check_finite(array: NDArray[Any], path: Path) -> None:
    """Refuse NaN and infinite voxels: one of them spoils every mean it enters."""
    broken = array.size - int(np.count_nonzero(np.isfinite(array)))
    if broken:
        raise UserError(
            f"{path} has {broken} NaN or infinite voxels; replace them by a number, "
            "e.g. the background's, and save it again"
        )


def as_integers(array: NDArray[Any], path: Path) -> NDArray[Any]:
    """A label map as integers; numbers that are stored as floats are fine."""
    if array.dtype.kind in "iu":
        return array.astype(array.dtype.newbyteorder("="), copy=False)
    check_finite(array, path)
    rounded: NDArray[Any] = np.rint(array)
    odd = array[rounded != array]
    if odd.size:
        some = ", ".join(f"{value:g}" for value in np.unique(odd)[:5])
        raise UserError(
            f"{path} is not a label map: {odd.size} voxels have values between integers "
            f"({some}). Resample labels by nearest neighbour, and check that it is not an image"
        )
    return rounded.astype(np.int64)
