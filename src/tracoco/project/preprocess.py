"""From a scan's voxels to the network's and back: the same for training and for prediction."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from tracoco.errors import UserError
from tracoco.project.plan import Plan
from tracoco.scans.scan import Shape, Spacing


def to_network_grid(
    array: NDArray[np.float32], spacing_mm: Spacing, plan: Plan
) -> NDArray[np.float32]:
    """Normalise and resample an image [C, X, Y, Z]; the result has the plan's stored axes."""
    check_channels(len(array), plan, "the image")
    shape = plan.stored_shape(_spatial(array), spacing_mm)
    channels = [
        _resample(torch.from_numpy(_stored_order(normalise(channel, plan, number), plan)), shape)
        for number, channel in enumerate(array)
    ]
    return torch.stack(channels).numpy()


def label_to_network_grid(
    label: NDArray[Any], spacing_mm: Spacing, plan: Plan
) -> NDArray[np.uint8]:
    """Resample class indices [X, Y, Z]: each voxel gets the class that covers most of it."""
    shape = plan.stored_shape(_spatial(label), spacing_mm)
    stored = torch.from_numpy(_stored_order(label.astype(np.uint8), plan))
    if tuple(stored.shape) == shape:
        return stored.numpy()
    return _largest(((stored == index).float() for index in range(plan.classes)), shape)


def to_scan_grid(probability: Iterable[Tensor], shape: Shape, plan: Plan) -> NDArray[np.uint8]:
    """Class indices [X, Y, Z] on a scan of canonical `shape`.

    Args:
        probability: of each class, on the network's grid: [K, ...stored axes], or its maps one
            after the other, of which only one is then in memory.
        shape: canonical shape of the scan.
        plan: the plan by which the scan came to the network's grid.
    """
    a, b, c = (shape[axis] for axis in plan.stored_axes)
    # One class at a time: a whole scan with many classes at full size would not fit in memory.
    stored = _largest((one.float() for one in probability), (a, b, c))
    return np.ascontiguousarray(stored.transpose(plan.scan_axes))


def check_channels(channels: int, plan: Plan, source: Path | str) -> None:
    """Refuse an image that is not like those of the project."""
    if channels != plan.channels:
        raise UserError(
            f"{source} has {channels} channels, the plan {plan.channels}; "
            "give a scan with the channels that the project was made with"
        )


def normalise(channel: NDArray[np.float32], plan: Plan, number: int = 0) -> NDArray[np.float32]:
    """Clip at the window of this channel, or at percentiles of the scan, and scale to [0, 1].

    A constant image becomes zeros.
    """
    low, high = plan.window[number] or _percentiles(channel, plan)
    if high <= low:
        return np.zeros_like(channel)
    scaled: NDArray[np.float32] = (channel - np.float32(low)) / np.float32(high - low)
    return scaled.clip(0, 1, out=scaled)


def _percentiles(channel: NDArray[np.float32], plan: Plan) -> tuple[float, float]:
    low, high = np.percentile(channel, [plan.low_percentile, plan.high_percentile])
    if high <= low:  # nearly all voxels are alike: what differs is all there is to see
        low, high = channel.min(), channel.max()
    return float(low), float(high)


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


def _spatial(array: NDArray[Any]) -> Shape:
    x, y, z = array.shape[-3:]
    return (x, y, z)


def _stored_order(array: NDArray[Any], plan: Plan) -> NDArray[Any]:
    return np.ascontiguousarray(array.transpose(plan.stored_axes))


def _resample(volume: Tensor, shape: Shape) -> Tensor:
    """Linear interpolation of one volume; untouched where it has the shape already."""
    if tuple(volume.shape) == shape:
        return volume
    return F.interpolate(volume[None, None], size=shape, mode="trilinear", align_corners=False)[
        0, 0
    ]


def _largest(maps: Iterable[Tensor], shape: Shape) -> NDArray[np.uint8]:
    """Index of the largest of several maps, each resampled to `shape` in its turn."""
    rest = iter(maps)
    first = next(rest, None)
    if first is None:
        raise ValueError("there is no class to choose from")
    highest = _resample(first, shape).clone()  # it is changed below, and may be the caller's
    winner = torch.zeros(shape, dtype=torch.uint8, device=highest.device)
    for index, one in enumerate(rest, start=1):
        value = _resample(one, shape)
        winner[value > highest] = index
        torch.maximum(highest, value, out=highest)
    return winner.cpu().numpy()
