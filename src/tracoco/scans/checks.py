"""What makes a scan unusable, whatever its format, and what its owner can do about it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracoco.errors import UserError
from tracoco.geometry import Box
from tracoco.scans.scan import SAME_GRID, Affine, LabelScan, ScanHeader, Shape, voxels_apart

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


def check_same_grid(first: ScanHeader, second: ScanHeader) -> None:
    """Refuse two channels of one scan that do not lie on the same voxels."""
    if first.shape != second.shape:
        problem = f"they have the shapes {first.shape} and {second.shape}"
    else:
        apart = voxels_apart(first.affine, second.affine, first.shape)
        problem = f"they lie up to {apart:.3g} voxels apart" if apart > SAME_GRID else ""
    if problem:
        raise UserError(
            f"{first.source} and {second.source} are not channels of one scan: {problem}. "
            "Resample the second to the grid of the first"
        )


EXACT = 1e-3
"""Voxels by which a box may be off the voxels of its image: rounding of headers, no more."""


def on_grid_of(image: ScanHeader, label: LabelScan) -> LabelScan:
    """The label on all voxels of its image.

    A label may cover a box of the image alone, as 3D Slicer crops it to its segments; outside of
    the box is background. All else that does not lie on the voxels of the image is refused.
    """
    about = label.header
    if image.shape != about.shape:
        box = _box_in(image, about)
        array = np.zeros(image.shape, dtype=label.array.dtype)
        array[box.slices] = label.array
        geometry = (image.affine, image.spacing_mm, image.grid, label.source)
        return LabelScan(array, *geometry, label.structures, box)
    apart = voxels_apart(image.affine, about.affine, image.shape)
    if apart > SAME_GRID:
        raise UserError(
            f"{label.source} lies up to {apart:.3g} voxels away from its image {image.source}, "
            "by the affines of both; resample the label, or copy the affine if only that is wrong"
        )
    return label


def _box_in(image: ScanHeader, label: ScanHeader) -> Box:
    """The box of its image that a label of another shape covers."""
    shapes = f"{label.source} has the shape {label.shape}, its image {image.source} {image.shape}"
    if not (image.has_geometry and label.has_geometry):
        raise UserError(
            f"{shapes}, and a file without geometry does not say where the smaller one lies; "
            "save both on the same voxels"
        )
    corners = np.vstack([np.indices((2, 2, 2)).reshape(3, -1), np.ones(8)])
    corners[:3] *= np.array(label.shape)[:, None] - 1
    places: NDArray[Any] = np.linalg.solve(image.affine, label.affine @ corners)[:3]
    start = places[:, 0]
    whole_start, off = np.rint(start), np.abs(places - start[:, None] - corners[:3]).max()
    if off > EXACT:
        raise UserError(
            f"{shapes}, and their voxels have other sizes or directions: the label is no box of "
            "the image; resample the label to the grid of the image"
        )
    if np.abs(start - whole_start).max() > EXACT:
        raise UserError(
            f"{shapes}, and the label is shifted by a fraction of a voxel: it begins at voxel "
            f"{_places(start)}; resample the label to the grid of the image"
        )
    first = tuple(int(place) for place in whole_start)
    stop = tuple(a + n for a, n in zip(first, label.shape, strict=True))
    if min(first) < 0 or any(end > n for end, n in zip(stop, image.shape, strict=True)):
        raise UserError(
            f"{shapes}, and the label leaves the grid of the image: it covers voxels {first} to "
            f"before {stop}; crop the label to the image, or resample it to the grid of the image"
        )
    return Box(first, label.shape)


def _places(voxel: NDArray[Any]) -> str:
    return f"({', '.join(f'{place:.4g}' for place in voxel)})"


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
