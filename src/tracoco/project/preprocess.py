"""From a scan's voxels to the network's: the same for training and for prediction."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from tracoco.errors import UserError
from tracoco.geometry import Box
from tracoco.project.labels import NOT_OF_DRAWN, UNDRAWN
from tracoco.project.normalise import (
    check_channels,
    check_stored_size,
    kept_box,
    normalised_channels,
    stored_order,
)
from tracoco.project.plan import Plan
from tracoco.scans.scan import Shape, Spacing

NOT_OF_DRAWN_INDEX, UNDRAWN_INDEX = MARKS = (254, 255)
"""What a stored label has in place of a class index where that is `NOT_OF_DRAWN` or `UNDRAWN`."""


def is_drawn(indices: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Where a stored label says which class a voxel has."""
    return indices < NOT_OF_DRAWN_INDEX


def is_structure(indices: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Where a stored label has a structure."""
    return (indices > 0) & is_drawn(indices)


def to_network_grid(
    array: NDArray[np.float32],
    spacing_mm: Spacing,
    plan: Plan,
    box: Box | None = None,
    source: Path | str = "the image",
) -> NDArray[np.float32]:
    """Normalise an image [C, X, Y, Z], then crop and resample it to the plan's stored axes.

    `box` is the image's `kept_box`, for a caller who needs it as well; `source` names the image in
    errors.
    """
    check_channels(len(array), plan, source)
    box = box or kept_box(array, plan)
    x, y, z = box.size
    check_stored_size((x, y, z), spacing_mm, plan, source)
    shape = plan.stored_shape((x, y, z), spacing_mm)
    stored = (torch.from_numpy(channel) for channel in normalised_channels(array, plan, box))
    resampled = [_resample(channel, shape) for channel in stored]
    # To stack a single channel would be to copy the scan.
    return (torch.stack(resampled) if len(resampled) > 1 else resampled[0][None]).numpy()


def label_to_network_grid(
    label: NDArray[Any], spacing_mm: Spacing, plan: Plan
) -> NDArray[np.uint8]:
    """Resample class indices [X, Y, Z]: each voxel gets the class that covers most of it."""
    x, y, z = label.shape
    shape = plan.stored_shape((x, y, z), spacing_mm)
    stored = torch.from_numpy(stored_order(label.astype(np.uint8), plan))
    if tuple(stored.shape) == shape:
        return stored.numpy()
    values = [*range(plan.classes), *(mark for mark in MARKS if (label == mark).any())]
    largest = _largest(((stored == value).float() for value in values), shape)
    return np.array(values, dtype=np.uint8)[largest]


def class_indices(label: NDArray[Any], plan: Plan, source: Path | str) -> NDArray[np.uint8]:
    """Class index of each raw label value, and a mark where nothing is drawn."""
    indices = np.zeros(label.shape, dtype=np.uint8)
    unmatched = np.ones(label.shape, dtype=bool)
    known = [*enumerate(plan.label_values)]
    if label.dtype.kind == "i" and label.min() < 0:
        known += [(UNDRAWN_INDEX, UNDRAWN), (NOT_OF_DRAWN_INDEX, NOT_OF_DRAWN)]
    for index, value in known:
        here = label == value
        indices[here] = index
        unmatched &= ~here
    unknown = label[unmatched]
    if unknown.size:
        some = ", ".join(str(value) for value in np.unique(unknown)[:10])
        raise UserError(
            f"{source} has {unknown.size} voxels with the values {some}, which the plan does not "
            f"know; it has {', '.join(map(str, plan.label_values))}. "
            "Correct the label, or add the value to label_values and class_names in plan.yaml"
        )
    return indices


def _resample(volume: Tensor, shape: Shape) -> Tensor:
    """Linear interpolation of one volume; untouched where it has the shape already."""
    if tuple(volume.shape) == shape:
        return volume
    return F.interpolate(volume[None, None], size=shape, mode="trilinear", align_corners=False)[
        0, 0
    ]


def _largest(maps: Iterable[Tensor], shape: Shape) -> NDArray[np.uint8]:
    """Index of the largest of several maps, each resampled to `shape` in its turn."""
    # One class at a time: all classes of a large scan at full size would not fit in memory.
    highest = torch.full(shape, -torch.inf)
    winner = torch.zeros(shape, dtype=torch.uint8)
    for index, one in enumerate(maps):
        value = _resample(one, shape)
        winner[value > highest] = index
        torch.maximum(highest, value, out=highest)
    return winner.numpy()
