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
from tracoco.geometry import Box, whole
from tracoco.project.content import content_box
from tracoco.project.normalise import normalise
from tracoco.project.plan import Plan
from tracoco.scans.memory_order import c_order
from tracoco.scans.scan import Shape, Spacing


def kept_box(array: NDArray[np.float32], plan: Plan) -> Box:
    """The part of an image [C, X, Y, Z] that a network gets to see: its content, or all of it."""
    return content_box(array) if plan.crop_to_content else whole(array.shape[1:])


def to_network_grid(
    array: NDArray[np.float32], spacing_mm: Spacing, plan: Plan, box: Box | None = None
) -> NDArray[np.float32]:
    """Normalise an image [C, X, Y, Z], then crop and resample it to the plan's stored axes.

    `box` is the image's `kept_box`, for a caller who needs it as well.
    """
    check_channels(len(array), plan, "the image")
    box = box or kept_box(array, plan)
    x, y, z = box.size
    shape = plan.stored_shape((x, y, z), spacing_mm)
    channels = (normalise(channel, plan, number, box) for number, channel in enumerate(array))
    stored = (torch.from_numpy(_stored_order(channel, plan)) for channel in channels)
    resampled = [_resample(channel, shape) for channel in stored]
    # To stack a single channel would be to copy the scan.
    return (torch.stack(resampled) if len(resampled) > 1 else resampled[0][None]).numpy()


def label_to_network_grid(
    label: NDArray[Any], spacing_mm: Spacing, plan: Plan
) -> NDArray[np.uint8]:
    """Resample class indices [X, Y, Z]: each voxel gets the class that covers most of it."""
    x, y, z = label.shape
    shape = plan.stored_shape((x, y, z), spacing_mm)
    stored = torch.from_numpy(_stored_order(label.astype(np.uint8), plan))
    if tuple(stored.shape) == shape:
        return stored.numpy()
    return _largest(((stored == index).float() for index in range(plan.classes)), shape)


def check_channels(channels: int, plan: Plan, source: Path | str) -> None:
    """Refuse an image that is not like those of the project."""
    if channels != plan.channels:
        raise UserError(
            f"{source} has {channels} channels, the plan {plan.channels}; "
            "give a scan with the channels that the project was made with"
        )


def class_indices(label: NDArray[Any], plan: Plan, source: Path | str) -> NDArray[np.uint8]:
    """Class index of each raw label value."""
    indices = np.zeros(label.shape, dtype=np.uint8)
    unmatched = np.ones(label.shape, dtype=bool)
    for index, value in enumerate(plan.label_values):
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


def raw_values(indices: NDArray[Any], plan: Plan) -> NDArray[Any]:
    """Raw label value of each class index: the inverse of `class_indices`."""
    values: NDArray[Any] = np.array(plan.label_values)
    smallest = np.result_type(*map(np.min_scalar_type, plan.label_values))
    raw: NDArray[Any] = values.astype(smallest)[indices]
    return raw


def _stored_order(array: NDArray[Any], plan: Plan) -> NDArray[Any]:
    return c_order(array.transpose(plan.stored_axes))


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
