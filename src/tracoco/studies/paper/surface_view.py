"""A label map as a shaded surface: first hits of parallel rays, lit from the upper left.

Only numpy and scipy: no mesh, no window, no graphics card.
"""

from collections.abc import Mapping, Sequence
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
    def through(cls, shape: Sequence[int], spacing: Floats, axes: Floats, pixels: int) -> "Rays":
        """Rays that cover a volume of `shape`, with this spacing, as a viewer sees it.

        The longer side of the picture has so many `pixels`; `axes` are those of a `Viewpoint`.
        """
        right, up, back = np.abs(axes) @ (np.array(shape) * spacing)
        pixel = max(right, up) / pixels
        step = max(pixel, 0.5 * spacing.min())  # there is nothing finer to hit
        counts = [max(1, round(float(n))) for n in (up / pixel, right / pixel, back / step)]
        matrix = (axes[[1, 0, 2]] * np.array([[-pixel], [pixel], [-step]]) / spacing).T
        middle, centre = (np.array(counts) - 1) / 2, (np.array(shape) - 1) / 2
        return cls(tuple(counts), matrix, centre - matrix @ middle)

    def towards(self, box: Sequence[slice]) -> tuple["Rays", tuple[int, ...]]:
        """The part of the grid that meets a box of the volume, and where in the grid it starts.

        Volume indices of the part are those of an array cut out with `box`.
        """
        corners = np.array(list(product(*((side.start, side.stop - 1) for side in box))))
        visible = np.linalg.solve(self.matrix, (corners - self.offset).T)
        low = np.clip(np.floor(visible.min(axis=1)).astype(int), 0, np.array(self.shape) - 1)
        high = np.clip(np.ceil(visible.max(axis=1)).astype(int) + 1, low + 1, self.shape)
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


Colour = tuple[float, float, float]

SURFACE_BLUR, NORMAL_BLUR = 0.8, 1.4
"""In voxels of the longest side: enough to hide the steps between slices, more so in the light."""
BORDER = 4
"""Voxels of background around the label map, so that what reaches its edge is closed."""
LEVEL, FADE = 0.5, 0.3
"""Blurred value at the surface, and the range of values over which a silhouette fades out."""
AMBIENT, HIGHLIGHT, FAR_SHADE = 0.36, 0.14, 0.18
LIGHT = np.array([-0.45, 0.55, 0.70])
"""Towards the light, as the viewer sees it: right, up, towards the viewer."""


def render_surface(
    label: NDArray[Any],
    spacing_mm: Sequence[float],
    colours: Mapping[int, Colour],
    viewpoint: Viewpoint | None = None,
    pixels: int = 320,
) -> Floats:
    """RGBA picture [rows, columns, 4] in [0, 1], clear where there is nothing; row 0 is the top.

    The frame holds the whole label map, so that maps of one shape and spacing are framed alike.

    Args:
        label: values [X, Y, Z]; the axes run to the right, the front and the head.
        spacing_mm: side lengths of a voxel.
        colours: red, green and blue in [0, 1] of each value that is shown.
        viewpoint: where the viewer stands; in front, a little to the left and above by default.
        pixels: length of the picture's longer side.
    """
    spacing, axes = np.array(spacing_mm, dtype=float), (viewpoint or Viewpoint()).axes
    padded = np.pad(label, BORDER)
    rays = Rays.through(padded.shape, spacing, axes, pixels)
    picture = np.zeros((*rays.shape[:2], 4))
    depth = np.full(rays.shape[:2], np.inf)
    for value, colour in colours.items():
        if (label == value).any():
            _add_class(
                picture, depth, padded == value, rays, _ClassStyle(spacing, axes, np.array(colour))
            )
    return picture


@dataclass(frozen=True, slots=True, eq=False)
class _ClassStyle:
    """What the drawing of one class needs to know besides its mask."""

    spacing: Floats
    axes: Floats
    colour: Floats


def _add_class(
    picture: Floats, depth: Floats, mask: NDArray[np.bool_], rays: Rays, style: _ClassStyle
) -> None:
    """Draw a class where it is nearer than what is there already, in place."""
    (found,) = ndimage.find_objects(mask.astype(np.uint8))
    box = tuple(slice(side.start - BORDER, side.stop + BORDER) for side in found)
    near, (row, column, step) = rays.towards(box)
    layer, hits = _layer(mask[box], near, style)
    window = (slice(row, row + near.shape[0]), slice(column, column + near.shape[1]))
    _put_in_depth(picture[window], depth[window], layer, hits + step)


def _layer(mask: NDArray[np.bool_], rays: Rays, style: _ClassStyle) -> tuple[Floats, Floats]:
    """One class alone as RGBA, and the step at which each ray hits it."""
    sigma = style.spacing.max() / style.spacing
    hits, alpha = _first_hits(rays.sample(_blurred(mask, SURFACE_BLUR * sigma)))
    visible = np.nonzero(alpha)
    places = rays.places(np.stack([*visible, hits[visible]]))
    factor, shine = _shading(_normals(mask, style.spacing, places) @ style.axes.T)
    factor *= 1 - FAR_SHADE * hits[visible] / rays.shape[2]
    layer = np.zeros((*alpha.shape, 4))
    layer[visible] = np.column_stack(
        [np.clip(factor[:, None] * style.colour + shine[:, None], 0, 1), alpha[visible]]
    )
    return layer, np.where(alpha > 0, hits, np.inf)


def _blurred(mask: NDArray[np.bool_], sigma: Floats) -> Floats:
    """A smooth field that is `LEVEL` at the surface; small parts that the blur would hide stay."""
    field: Floats = ndimage.gaussian_filter(mask.astype(np.float32), sigma)
    parts, count = ndimage.label(mask)
    peaks = np.array([1.0, *ndimage.maximum(field, parts, range(1, count + 1))])
    field[(peaks < LEVEL + FADE)[parts]] = 2.0  # visible even where it falls between two rays
    return field


def _first_hits(field: Floats) -> tuple[Floats, Floats]:
    """The step, between two samples, at which each ray meets the surface, and how solid it is."""
    peak = field.max(axis=2)
    hit = np.where(peak > LEVEL, (field > LEVEL).argmax(axis=2), field.argmax(axis=2))
    here = np.take_along_axis(field, hit[..., None], 2)[..., 0]
    before = np.take_along_axis(field, np.maximum(hit - 1, 0)[..., None], 2)[..., 0]
    back = np.where(here > np.maximum(before, LEVEL), (here - LEVEL) / (here - before + 1e-9), 0.0)
    return hit - np.clip(back, 0, 1), np.clip((peak - LEVEL) / FADE + 0.5, 0, 1)


def _normals(mask: NDArray[np.bool_], spacing: Floats, places: Floats) -> Floats:
    """Unit vectors [N, 3] out of the surface, in the axes of the volume."""
    field = ndimage.gaussian_filter(mask.astype(np.float32), NORMAL_BLUR * spacing.max() / spacing)
    slopes = np.gradient(field, *spacing)
    outwards = -np.stack([ndimage.map_coordinates(each, places, order=1) for each in slopes], 1)
    length = np.linalg.norm(outwards, axis=1, keepdims=True)
    unit: Floats = outwards / np.maximum(length, 1e-9)
    return unit


def _shading(normals: Floats) -> tuple[Floats, Floats]:
    """For normals as the viewer sees them: a factor of the colour (Lambert), and a highlight."""
    light = LIGHT / np.linalg.norm(LIGHT)
    halfway = light + np.array([0.0, 0.0, 1.0])
    lambert = np.clip(normals @ light, 0, None)
    shine = np.clip(normals @ (halfway / np.linalg.norm(halfway)), 0, None) ** 24
    return AMBIENT + (1 - AMBIENT) * lambert, HIGHLIGHT * shine


def _put_in_depth(picture: Floats, nearest: Floats, layer: Floats, depth: Floats) -> None:
    """Lay a class over what is behind it and under what is before it, in place."""
    in_front = (depth < nearest)[..., None]
    over, under = np.where(in_front, layer, picture), np.where(in_front, picture, layer)
    alpha = over[..., 3:] + under[..., 3:] * (1 - over[..., 3:])
    mixed = over[..., :3] * over[..., 3:] + under[..., :3] * under[..., 3:] * (1 - over[..., 3:])
    picture[..., :3] = mixed / np.maximum(alpha, 1e-9)
    picture[..., 3:] = alpha
    np.minimum(nearest, depth, out=nearest)
