"""From a scan's voxels to the network's, and from label values to classes.

It is the same for training and for prediction. Torch is needed where something is resampled.
"""

from collections.abc import Iterable, Iterator
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracoco.errors import UserError
from tracoco.geometry import Box, whole
from tracoco.memory import check_memory
from tracoco.project.derive import DARK
from tracoco.project.labels import NOT_OF_DRAWN, UNDRAWN
from tracoco.project.plan import FARTHEST, Plan
from tracoco.scans.scan import Shape, Spacing, c_order, content_box

Channel = NDArray[np.float32]
LARGE = 2 * 2**30
MOST_GROWTH = 30
"""A scan that takes more than so many bytes once it is resampled must not have so many times the
voxels that it had: from slices of 5 mm to voxels of 1 mm are at most 10 times."""


def normalise(channel: Channel, plan: Plan, number: int = 0, box: Box | None = None) -> Channel:
    """Normalise one channel of a scan as the plan says.

    With a box only that part comes back; its values are those that it has in the whole scan. A
    constant image becomes zeros. A plan that does not rescale keeps the values of the file.
    """
    kept = channel[box.slices] if box else channel
    if not plan.rescale:
        return kept.copy()
    if plan.normalisation == "range":
        return _scaled(channel, kept, plan, number)
    window = plan.window[number]
    if window:
        mean, sd = plan.window_scale(number, window)
        return _standardised(kept.clip(*window), mean, sd)
    mean, sd = _mean_sd(_counted(channel, plan, number), plan)
    if np.float32(sd) == 0:
        return np.zeros_like(kept)
    standardised = _standardised(kept.copy(), mean, sd)
    return standardised.clip(-FARTHEST, FARTHEST, out=standardised)


def _scaled(channel: Channel, kept: Channel, plan: Plan, number: int) -> Channel:
    """Clip at the window of this channel, or at percentiles of the scan, and scale to [0, 1]."""
    low, high = plan.window[number] or _percentiles(channel, plan)
    if high <= low:  # nearly all voxels are alike: what differs is all there is to see
        low, high = float(channel.min()), float(channel.max())
    if high <= low:
        return np.zeros_like(kept)
    scaled: Channel = kept - np.float32(low)
    scaled /= np.float32(high - low)
    return scaled.clip(0, 1, out=scaled)


def _standardised(values: Channel, mean: float, sd: float) -> Channel:
    """In place, so that a large scan is not in memory once more."""
    values -= np.float32(mean)
    values /= np.float32(sd)
    return values


def _counted(channel: Channel, plan: Plan, number: int) -> Channel:
    """The voxels that mean and deviation are taken of."""
    over = plan.statistics_over[number]
    if over == "all":
        return channel
    low, high = _percentiles(channel, plan)
    return channel[channel > (low if over == "above_background" else low + DARK * (high - low))]


def _mean_sd(values: Channel, plan: Plan) -> tuple[float, float]:
    """Mean and deviation of values clipped at their percentiles; 0 and 0 if they are all alike."""
    low, high = _percentiles(values, plan) if values.size else (0.0, 0.0)
    if high <= low:
        return 0.0, 0.0
    clipped = values.clip(low, high)
    return float(clipped.mean(dtype=np.float64)), float(clipped.std(dtype=np.float64))


def _percentiles(values: Channel, plan: Plan) -> tuple[float, float]:
    low, high = np.percentile(values, [plan.low_percentile, plan.high_percentile])
    return float(low), float(high)


def normalised_channels(
    array: NDArray[np.float32], plan: Plan, box: Box
) -> Iterator[NDArray[np.float32]]:
    """The channels of an image inside of a box, normalised, in the order of the plan's axes."""
    for number, channel in enumerate(array):
        yield stored_order(normalise(channel, plan, number, box), plan)


def kept_box(array: NDArray[np.float32], plan: Plan) -> Box:
    """The part of an image [C, X, Y, Z] that a network gets to see: its content, or all of it."""
    return content_box(array) if plan.crop_to_content else whole(array.shape[1:])


def check_stored_size(size: Shape, spacing_mm: Spacing, plan: Plan, source: Path | str) -> None:
    """Refuse a scan that becomes many times as large at the plan's spacing, or too large at all.

    One scan with voxels of 100 mm among others of 1 mm has a wrong spacing, or is none of the set.
    """
    shape = plan.stored_shape(size, spacing_mm)
    needed = prod(shape) * (plan.channels + 2) * np.dtype(np.float32).itemsize
    told = " x ".join(f"{side:g}" for side in spacing_mm)
    what = f"{source} has voxels of {told} mm and becomes {' x '.join(map(str, shape))} voxels"
    fix = "correct its spacing if that is wrong, take the case out, or set a coarser spacing_mm"
    if needed > LARGE and prod(shape) > MOST_GROWTH * prod(size):
        raise UserError(
            f"{what} of the plan's spacing, {prod(shape) / prod(size):,.0f} times as many as it "
            f"has; {fix}"
        )
    check_memory(needed, f"{what}, which", fix)


def check_channels(channels: int, plan: Plan, source: Path | str) -> None:
    """Refuse an image that is not like those of the project."""
    if channels != plan.channels:
        raise UserError(
            f"{source} has {channels} channels, the plan {plan.channels}; "
            "give a scan with the channels that the project was made with"
        )


def raw_values(indices: NDArray[Any], plan: Plan) -> NDArray[Any]:
    """Raw label value of each class index: the inverse of `class_indices`."""
    values: NDArray[Any] = np.array(plan.label_values)
    smallest = np.result_type(*map(np.min_scalar_type, plan.label_values))
    raw: NDArray[Any] = values.astype(smallest)[indices]
    return raw


def stored_order(array: NDArray[Any], plan: Plan) -> NDArray[Any]:
    """The array with its axes in the order of the plan's store."""
    return c_order(array.transpose(plan.stored_axes))


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
    resampled = [_resample(channel, shape) for channel in normalised_channels(array, plan, box)]
    # To stack a single channel would be to copy the scan.
    return np.stack(resampled) if len(resampled) > 1 else resampled[0][None]


def label_to_network_grid(
    label: NDArray[Any], spacing_mm: Spacing, plan: Plan
) -> NDArray[np.uint8]:
    """Resample class indices [X, Y, Z]: each voxel gets the class that covers most of it."""
    x, y, z = label.shape
    shape = plan.stored_shape((x, y, z), spacing_mm)
    stored: NDArray[np.uint8] = stored_order(label.astype(np.uint8), plan)
    if stored.shape == shape:
        return stored
    values = [*range(plan.classes), *(mark for mark in MARKS if (label == mark).any())]
    largest = _largest(((stored == value).astype(np.float32) for value in values), shape)
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


def _resample(volume: Channel, shape: Shape) -> Channel:
    """Linear interpolation of one volume; untouched where it has the shape already."""
    if volume.shape == shape:
        return volume
    import torch  # noqa: PLC0415 - an exported model needs all but this
    from torch.nn.functional import interpolate  # noqa: PLC0415 - the same

    maps = torch.from_numpy(volume)[None, None]
    resampled: Channel = interpolate(maps, size=shape, mode="trilinear")[0, 0].numpy()
    return resampled


def _largest(maps: Iterable[Channel], shape: Shape) -> NDArray[np.uint8]:
    """Index of the largest of several maps, each resampled to `shape` in its turn."""
    # One class at a time: all classes of a large scan at full size would not fit in memory.
    highest = np.full(shape, -np.inf, np.float32)
    winner = np.zeros(shape, np.uint8)
    for index, one in enumerate(maps):
        value = _resample(one, shape)
        winner[value > highest] = index
        np.maximum(highest, value, out=highest)
    return winner
