"""Rotation, scaling and elastic deformation: one smooth map, and one interpolation, for a pair.

A pair of crops is cut out of one deformed volume, so both show the same voxels where they meet.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.random import Generator
from numpy.typing import NDArray
from torch import Tensor

from tracoco.geometry import Box, Size, whole
from tracoco.settings import AugmentationConfig

THICK = 3.0
"""Slices that are so many times thicker than their voxels are wide are not rotated or scaled out of
their plane: interpolating between them would invent anatomy."""
CONTROL_VOXELS = 24
"""Distance of the control points of an elastic deformation along the axes of fine resolution."""


@dataclass(frozen=True, slots=True, eq=False)
class Warp:
    """A map from the voxels of the deformed volume to places in the stored one."""

    matrix: NDArray[np.float64]
    """[3, 3]; what it does to distances from the pivot, in voxels."""
    pivot: NDArray[np.float64]
    """[3]; a place that stays where it is, but for the elastic part."""
    control: NDArray[np.float32] | None = None
    """Displacements [3, ...] in voxels at control points that span the box which is sampled."""

    def places(self, box: Box) -> Tensor:
        """Where each voxel of a box comes from, [3, ...]."""
        axes = [torch.arange(n, dtype=torch.float32) for n in box.size]
        origin = self.matrix @ (np.array(box.start) - self.pivot) + self.pivot
        found = torch.empty(3, *box.size)
        for row in range(3):
            found[row] = float(origin[row])
            for axis, steps in enumerate(axes):
                shape = [-1 if other == axis else 1 for other in range(3)]
                found[row] += float(self.matrix[row, axis]) * steps.reshape(shape)
        if self.control is not None:
            control = torch.from_numpy(self.control)
            found += F.interpolate(control[None], box.size, mode="trilinear", align_corners=True)[0]
        return found


def draw_warp(
    random: Generator, amounts: AugmentationConfig, box: Box, spacing_mm: Sequence[float]
) -> Warp | None:
    """A map about the centre of `box`, or None where none of its parts was drawn.

    Args:
        random: decides.
        amounts: how much, and how often.
        box: what will be sampled; a slice thick for 2D networks.
        spacing_mm: of the stored volume.
    """
    rotated = random.random() < amounts.rotation_chance
    scaled = random.random() < amounts.scaling_chance
    bent = random.random() < amounts.elastic_chance
    angles = random.uniform(-amounts.rotation, amounts.rotation, 3)
    smallest, largest = amounts.scaling
    factor = math.exp(random.uniform(math.log(smallest), math.log(largest)))
    axes = fine_axes(box.size, spacing_mm)
    control = _draw_control(random, amounts.elastic, box, axes) if bent else None
    if not (rotated or scaled or bent) or len(axes) < 2:
        return None
    turn = rotation(np.deg2rad(angles) if rotated else np.zeros(3), axes)
    zoom = np.array([1 / factor if scaled and axis in axes else 1.0 for axis in range(3)])
    spacing = np.array(spacing_mm)
    # Turned in millimetres, so that a rotation is one whatever the voxels' sides.
    matrix = np.diag(1 / spacing) @ turn @ np.diag(zoom * spacing)
    pivot = np.array(box.start) + (np.array(box.size) - 1) / 2
    return Warp(matrix, pivot, control)


def fine_axes(size: Size, spacing_mm: Sequence[float]) -> list[int]:
    """Axes that may be mixed with each other: not a single slice, and not thick slices."""
    finest = min(spacing for n, spacing in zip(size, spacing_mm, strict=True) if n > 1)
    pairs = enumerate(zip(size, spacing_mm, strict=True))
    return [axis for axis, (n, spacing) in pairs if n > 1 and spacing < THICK * finest]


def rotation(radians: NDArray[np.float64], axes: Sequence[int]) -> NDArray[np.float64]:
    """A rotation [3, 3] in each plane that two of the axes span."""
    turn = np.eye(3)
    planes = [(a, b) for index, a in enumerate(axes) for b in axes[index + 1 :]]
    for (a, b), angle in zip(planes, radians, strict=False):
        one = np.eye(3)
        one[a, a] = one[b, b] = math.cos(angle)
        one[a, b], one[b, a] = -math.sin(angle), math.sin(angle)
        turn = turn @ one
    return turn


def _draw_control(
    random: Generator, amount: float, box: Box, axes: Sequence[int]
) -> NDArray[np.float32]:
    """Normal displacements at control points; axes of thick slices are neither bent nor crossed."""
    shape = [max(2, round(n / CONTROL_VOXELS) + 1) if n > 1 else 1 for n in box.size]
    control = random.normal(0, amount, (3, *shape)).astype(np.float32)
    for axis in range(3):
        if axis not in axes:
            control[axis] = 0
    return control


def sample(
    image: NDArray[np.float32],
    label: NDArray[np.uint8] | None,
    box: Box,
    warp: Warp,
    label_box: Box,
) -> tuple[NDArray[np.float32], NDArray[np.bool_], NDArray[np.uint8] | None]:
    """A box of the deformed volume: its voxels, which of them lie in the volume, and its label.

    Images are interpolated linearly, labels take the nearest voxel. Only the part of the volume
    that is needed is read.

    Args:
        image: the volume [C, ...], mapped from its file.
        label: of the whole volume, if wanted.
        box: in the deformed volume.
        warp: where its voxels come from.
        label_box: the part of `box` whose label is wanted, seen from its start.
    """
    shape = image.shape[1:]
    places = warp.places(box)
    valid = torch.ones(box.size, dtype=torch.bool)
    for place, n in zip(places, shape, strict=True):
        valid &= (place >= -0.5) & (place <= n - 0.5)
    if not bool(valid.any()):
        empty = None if label is None else np.zeros(label_box.size, np.uint8)
        return np.zeros((len(image), *box.size), np.float32), valid.numpy(), empty
    part = _needed(places, shape)
    grid = _grid(places, part)
    values = _sampled(np.array(image[:, *part.slices]), grid, "bilinear")
    values *= valid
    found = None
    if label is not None:
        there = grid[label_box.slices]
        classes = _sampled(label[part.slices][None].astype(np.float32), there, "nearest")
        found = (classes[0] * valid[label_box.slices]).to(torch.uint8).numpy()
    return values.numpy(), valid.numpy(), found


def _needed(places: Tensor, shape: Size) -> Box:
    """The part of the volume that these places lie in, with a voxel around it for interpolation."""
    low = [math.floor(float(place.min())) - 1 for place in places]
    high = [math.ceil(float(place.max())) + 2 for place in places]
    size = tuple(b - a for a, b in zip(low, high, strict=True))
    return Box(tuple(low), size).intersect(whole(shape))


def _grid(places: Tensor, part: Box) -> Tensor:
    """Places as torch counts them: from -1 to 1 over the part, the last axis first."""
    scaled = [
        2 * (place - start) / max(size - 1, 1) - (1 if size > 1 else 0)
        for place, start, size in zip(places, part.start, part.size, strict=True)
    ]
    return torch.stack(scaled[::-1], dim=-1)


def _sampled(part: NDArray[np.float32], grid: Tensor, mode: str) -> Tensor:
    volume = torch.from_numpy(part)[None]
    return F.grid_sample(volume, grid[None], mode, padding_mode="border", align_corners=True)[0]
