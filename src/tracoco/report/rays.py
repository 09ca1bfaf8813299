"""Parallel rays through a volume, from wherever a viewer stands."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

Floats = NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True)
class Viewpoint:
    """Where the viewer stands, in degrees, for axes that run to the right, the front and the head.

    Azimuth 0 faces the patient and 90 looks from the patient's left; elevation 90 is from above.
    """

    azimuth: float = 30.0
    elevation: float = 20.0

    @property
    def axes(self) -> Floats:
        """The viewer's right, up and back, as rows in the axes of the volume."""
        turn, lift = np.deg2rad((self.azimuth, self.elevation))
        right = np.array([-np.cos(turn), -np.sin(turn), 0.0])
        back = np.array([-np.sin(turn) * np.cos(lift), np.cos(turn) * np.cos(lift), np.sin(lift)])
        return np.stack([right, np.cross(back, right), back])


@dataclass(frozen=True, slots=True, eq=False)
class Rays:
    """A grid [rows, columns, steps] in a volume; the steps of a ray lead away from the viewer."""

    shape: tuple[int, ...]
    matrix: Floats
    """From an index of the grid to one of the volume, with `offset`."""
    offset: Floats

    @classmethod
    def through(cls, shape: Sequence[int], sides: Floats, axes: Floats, pixels: int) -> "Rays":
        """Rays that cover a volume of `shape`, whose voxels have these sides, as a viewer sees it.

        The longer side of the picture has so many `pixels`; `axes` are those of a `Viewpoint`.
        """
        right, up, back = np.abs(axes) @ (np.array(shape) * sides)
        pixel = max(right, up) / pixels
        step = max(pixel, 0.5 * sides.min())  # there is nothing finer to hit
        counts = [max(1, round(float(n))) for n in (up / pixel, right / pixel, back / step)]
        matrix = (axes[[1, 0, 2]] * np.array([[-pixel], [pixel], [-step]]) / sides).T
        middle, centre = (np.array(counts) - 1) / 2, (np.array(shape) - 1) / 2
        return cls(tuple(counts), matrix, centre - matrix @ middle)

    def towards(self, box: Sequence[slice]) -> tuple["Rays", tuple[int, ...]]:
        """The part of the grid that meets a box of the volume, and where in the grid it starts.

        Volume indices of the part are those of an array cut out with `box`.
        """
        corners = np.array(list(product(*((side.start, side.stop - 1) for side in box))))
        seen = np.linalg.solve(self.matrix, (corners - self.offset).T)
        low = np.clip(np.floor(seen.min(axis=1)).astype(int), 0, np.array(self.shape) - 1)
        high = np.clip(np.ceil(seen.max(axis=1)).astype(int) + 1, low + 1, self.shape)
        start = np.array([side.start for side in box])
        offset = self.offset + self.matrix @ low - start
        return Rays(tuple((high - low).tolist()), self.matrix, offset), tuple(low.tolist())

    def sample(self, field: Floats) -> Floats:
        """The values of a volume along all rays."""
        found: Floats = ndimage.affine_transform(
            field, self.matrix, self.offset, self.shape, order=1, mode="constant"
        )
        return found

    def places(self, grid: Floats) -> Floats:
        """Indices [3, N] into the volume of places [3, N] in the grid."""
        places: Floats = self.matrix @ grid + self.offset[:, None]
        return places
