"""A scan in memory, always in the axis order right, anterior, superior (RAS+), and the way back.

Whether two scans lie on the same voxels is told here too.
"""

import colorsys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from nibabel.orientations import inv_ornt_aff, io_orientation
from numpy.typing import NDArray

from tracoco.errors import UserError
from tracoco.geometry import Box, whole

Voxel = TypeVar("Voxel", bound=np.generic)

ALONG, LAST, OTHER = 128, 32, 4
"""Sides of a block along the axis that lies closest in memory now, the one that will, the rest."""
SMALL = 2**18
"""Bytes that fit a processor's cache, so that nothing is gained by blocks."""


def c_order(array: NDArray[Voxel]) -> NDArray[Voxel]:
    """The array [..., X, Y, Z] with its last axis closest in memory, copied unless it is so.

    Files have their first axis closest. Numpy goes through such an array line by line and fetches
    every piece of memory many times over, the more so the larger it is. Block by block, each in
    the order that it has and then turned within the cache, takes a fifth of that time for a CT.
    """
    closest = int(np.argmin(np.abs(array.strides)))
    if array.nbytes <= SMALL or closest == array.ndim - 1:
        return np.ascontiguousarray(array)
    turned = np.empty(array.shape, dtype=array.dtype)
    for block in _blocks(array.shape, closest):
        turned[block] = array[block].copy(order="K")
    return turned


def _blocks(shape: tuple[int, ...], closest: int) -> Iterator[tuple[slice, ...]]:
    lengths = [OTHER] * len(shape)
    lengths[-1], lengths[closest] = LAST, ALONG
    steps = (range(0, size, side) for size, side in zip(shape, lengths, strict=True))
    for starts in product(*steps):
        yield tuple(slice(a, a + side) for a, side in zip(starts, lengths, strict=True))


Shape = tuple[int, int, int]
Spacing = tuple[float, float, float]
Affine = NDArray[np.float64]


SAME_GRID = 0.1
"""Voxels by which two grids may lie apart and still be one: the rounding of headers, no more."""


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """The voxel grid of a file in the file's own axis order: enough to write a result on it."""

    shape: Shape
    affine: Affine
    """[4, 4], from voxel indices to millimetres."""
    header: bytes = b""
    """The header of a NIfTI file, so that nothing of it is rounded; empty for other formats."""
    has_geometry: bool = True
    """Whether the file says where its voxels lie; if not, the affine is assumed."""


@dataclass(frozen=True, slots=True, eq=False)
class ScanHeader:
    """What a file says about its scan before any voxel is read; axes in canonical order."""

    shape: Shape
    affine: Affine
    spacing_mm: Spacing
    channels: int
    grid: Grid
    source: Path

    @property
    def has_geometry(self) -> bool:
        """Whether the file says where its voxels lie; if not, affine and spacing are assumed."""
        return self.grid.has_geometry


@dataclass(frozen=True, slots=True, eq=False)
class Scan:
    """An image, float32 [C, X, Y, Z] in canonical order."""

    array: NDArray[np.float32]
    affine: Affine
    spacing_mm: Spacing
    grid: Grid
    source: Path

    @property
    def header(self) -> ScanHeader:
        """The same without the voxels."""
        x, y, z = self.array.shape[1:]
        geometry = ((x, y, z), self.affine, self.spacing_mm)
        return ScanHeader(*geometry, len(self.array), self.grid, self.source)

    @property
    def has_geometry(self) -> bool:
        """Whether the file says where its voxels lie; if not, affine and spacing are assumed."""
        return self.grid.has_geometry


@dataclass(frozen=True, slots=True)
class Structure:
    """What a label value stands for, as files and viewers show it."""

    value: int
    name: str
    colour: tuple[float, float, float] | None = None
    """Red, green and blue from 0 to 1; None where nobody has chosen any."""

    @property
    def shown_colour(self) -> tuple[float, float, float]:
        """Its colour, or one of its own by its value, far from those of the values beside it."""
        golden = 0.618034
        return self.colour or colorsys.hsv_to_rgb(self.value * golden % 1, 0.7, 0.95)


@dataclass(frozen=True, slots=True, eq=False)
class LabelScan:
    """A label map with the values as they are in the file, integer [X, Y, Z] in canonical order."""

    array: NDArray[Any]
    affine: Affine
    spacing_mm: Spacing
    grid: Grid
    source: Path
    structures: tuple[Structure, ...] = ()
    """Those that the file names; most files name none."""
    box: Box | None = None
    """The part of its image that the file covers; None where it covers the whole image, or where
    that is not known yet."""

    @property
    def header(self) -> ScanHeader:
        """The same without the voxels."""
        x, y, z = self.array.shape
        return ScanHeader((x, y, z), self.affine, self.spacing_mm, 1, self.grid, self.source)

    @property
    def has_geometry(self) -> bool:
        """Whether the file says where its voxels lie; if not, affine and spacing are assumed."""
        return self.grid.has_geometry


def to_canonical(array: NDArray[Any], grid: Grid) -> NDArray[Any]:
    """Turn the last three axes of an array from the grid's own order to RAS+."""
    order, flipped = _orientation(grid)
    leading = range(array.ndim - 3)
    turned = np.flip(array, axis=tuple(axis - 3 for axis in flipped))
    axes = tuple(leading) + tuple(int(axis) + len(leading) for axis in np.argsort(order))
    return c_order(turned.transpose(axes))


def to_grid(array: NDArray[Any], grid: Grid) -> NDArray[Any]:
    """Turn a canonical [X, Y, Z] array back to the grid's own axis order."""
    order, flipped = _orientation(grid)
    turned = np.flip(array.transpose(order), axis=flipped)
    if turned.shape != grid.shape:
        raise ValueError(f"array of {turned.shape} does not lie on a grid of {grid.shape}")
    return c_order(turned)


def canonical_geometry(grid: Grid) -> tuple[Shape, Affine, Spacing]:
    """Shape, affine and spacing of a grid once its axes are in canonical order."""
    order, _ = _orientation(grid)
    affine = grid.affine @ inv_ornt_aff(io_orientation(grid.affine), grid.shape)
    x, y, z = (grid.shape[axis] for axis in np.argsort(order))
    right, anterior, superior = (float(side) for side in np.linalg.norm(affine[:3, :3], axis=0))
    return (x, y, z), affine, (right, anterior, superior)


def voxels_apart(first: Affine, second: Affine, shape: Shape) -> float:
    """How far a voxel is from its namesake, in voxels of the `first` grid, at the worst corner."""
    corners = np.indices((2, 2, 2)).reshape(3, -1) * (np.array(shape)[:, None] - 1)
    apart_mm = ((first - second) @ np.vstack([corners, np.ones(8)]))[:3]
    apart = np.linalg.solve(first[:3, :3], apart_mm)
    return float(np.linalg.norm(apart, axis=0).max())


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


def _orientation(grid: Grid) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The canonical axis of each own axis, and the own axes that run the other way."""
    axis_and_sign = io_orientation(grid.affine)
    order = tuple(int(axis) for axis in axis_and_sign[:, 0])
    return order, tuple(int(axis) for axis in np.flatnonzero(axis_and_sign[:, 1] < 0))


def content_box(array: NDArray[Any]) -> Box:
    """The smallest box around all voxels of [C, X, Y, Z] that differ from the first one.

    A voxel differs if any of its channels does. A constant image has no content and stays whole.
    """
    x, y, z = array.shape[1:]
    along_x = np.zeros(x, dtype=bool)
    across = np.zeros((y, z), dtype=bool)
    # Plane by plane: a mask of a large scan would take a quarter of the scan's memory.
    for channel in array:
        first = channel[0, 0, 0]
        for index, plane in enumerate(channel):
            differs = plane != first
            along_x[index] |= differs.any()
            across |= differs
    if not along_x.any():
        return whole((x, y, z))
    places = [np.flatnonzero(line) for line in (along_x, across.any(axis=1), across.any(axis=0))]
    return Box(
        tuple(int(place[0]) for place in places),
        tuple(int(place[-1] - place[0]) + 1 for place in places),
    )
