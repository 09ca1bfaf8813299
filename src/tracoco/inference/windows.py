"""How large windows are, where they lie, how much their voxels count, and how maps are resized.

Their size follows the networks' needs and the memory. Exported models need all of this, without
torch.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracoco.config import InferenceConfig
from tracoco.errors import UserError
from tracoco.geometry import Box, Size, piece_axis, start_range, windows
from tracoco.settings import Settings


def window_places(shape: Size, window: Size, config: InferenceConfig) -> list[Box]:
    """Windows that cover a volume at least as large as one of them.

    For an overlap they are spread evenly. For a stride they lie exactly so far apart, and the last
    one along an axis is moved back to the volume's end, as the papers do it.
    """
    if config.stride is None:
        return windows(shape, window, strides(window, config.overlap))
    steps = stride_steps(window, config.stride)
    starts = (
        [min(index * step, n - w) for index in range(-(-(n - w) // step) + 1)]
        for n, w, step in zip(shape, window, steps, strict=True)
    )
    return [Box(start, window) for start in product(*starts)]


def check_windows(window: Size, config: InferenceConfig) -> None:
    """Refuse settings that no window of this size can follow."""
    if config.stride is None:
        strides(window, config.overlap)
    else:
        stride_steps(window, config.stride)


def stride_steps(window: Size, stride: tuple[int, ...]) -> Size:
    """The stride along each axis; in 2D projects from slice to slice, if only two are given."""
    steps = (1, *stride) if window[0] == 1 and len(stride) == len(window) - 1 else stride
    fitting = len(steps) == len(window)
    if not fitting or not all(1 <= step <= n for step, n in zip(steps, window, strict=True)):
        raise UserError(
            f"inference.stride {list(stride)} must have one value for each axis of the window "
            f"{list(window)}, at least 1 and at most the window's length, so that nothing is left "
            "out; in 2D projects two values are enough"
        )
    return steps


def strides(window: Size, overlap: tuple[float, ...] | float) -> Size:
    """Distance of neighbouring windows, per axis, for an overlap as a fraction of the window."""
    fractions = overlap if isinstance(overlap, tuple) else (overlap,) * len(window)
    if len(fractions) == len(window) - 1:  # 2D projects: no overlap between slices
        fractions = (0.0, *fractions)
    if len(fractions) != len(window) or not all(0 <= fraction < 1 for fraction in fractions):
        raise UserError(
            f"inference.overlap {overlap} must be at least 0 and below 1, "
            f"one value or one for each of {len(window)} axes"
        )
    return tuple(
        max(1, round(n * (1 - fraction))) for n, fraction in zip(window, fractions, strict=True)
    )


def window_weight(window: Size, kind: str) -> NDArray[np.float32]:
    """How much each voxel of a window counts: all alike, or less towards the borders.

    A network sees less around a voxel at the border, but what several windows say together is
    better than what one says. The Gaussian has a standard deviation of a quarter of the window:
    with an eighth, as is usual, all but the window in whose middle a voxel lies hardly count.
    """
    weight = np.ones(window, np.float32)
    if kind == "gaussian":
        for axis, length in enumerate(window):
            position = np.arange(length, dtype=np.float32) - np.float32((length - 1) / 2)
            bell = np.exp(np.float32(-0.5) * (position / np.float32(length / 4)) ** 2)
            weight *= bell.reshape([length if i == axis else 1 for i in range(len(window))])
    return weight


def padding(shape: Sequence[int], window: Size, crop: Size) -> list[tuple[int, int]]:
    """Voxels before and behind each axis of a volume that make it as large as a window.

    A volume smaller than the crop lies in the middle of it, as in training.
    """
    before = [-start_range(n, length)[0] for n, length in zip(shape, crop, strict=True)]
    return [(b, max(0, w - n - b)) for n, w, b in zip(shape, window, before, strict=True)]


def neighbours(
    source: int, target: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
    """For each target row the rows around its centre, and the fraction of the upper one."""
    place = (np.arange(target, dtype=np.float32) + np.float32(0.5)) * np.float32(source / target)
    place = np.maximum(place - np.float32(0.5), 0)
    low = np.minimum(place.astype(np.int64), source - 1)
    fraction = (place - low).astype(np.float32)
    # A row that lies on another needs no second one, so nothing waits where nothing is resampled.
    high = np.minimum(np.where(fraction > 0, low + 1, low), source - 1)
    return low, high, fraction


def resized(volume: NDArray[np.float32], shape: Sequence[int]) -> NDArray[np.float32]:
    """Linear interpolation of a volume, axis by axis; untouched where it has the shape already."""
    for axis, length in enumerate(shape):
        if volume.shape[axis] == length:
            continue
        low, high, fraction = neighbours(volume.shape[axis], length)
        weight = fraction.reshape([-1 if i == axis else 1 for i in range(volume.ndim)])
        below = volume.take(low, axis)
        volume = below + weight * (volume.take(high, axis) - below)
    return volume


def nearest(source: int, target: int) -> NDArray[np.int64]:
    """The index of the nearest of `source` voxels for each of `target` voxels.

    The first and the last voxels of both lie on each other, as in `scipy.ndimage.zoom` with order
    0. For some sizes that function leaves the last voxel empty, which is a rounding error.
    """
    step = (source - 1) / max(target - 1, 1)
    places = np.floor(np.arange(target) * step + 0.5).clip(max=source - 1)
    indices: NDArray[np.int64] = places.astype(np.int64)
    return indices


class WindowNeeds(Settings):
    """What windows of any size need, for networks that take them."""

    multiple_of: Size
    """Their lengths are multiples of it, along each axis that the networks see."""
    voxel_bytes: int
    """Estimated memory of a pass, for each voxel of a window."""
    sum_bytes: int
    """That of the sums over windows, for each voxel of the band that they are kept for."""


class Cover(NamedTuple):
    """Windows for a scan."""

    window: Size
    config: InferenceConfig
    """With the overlap as a fraction of these windows, and as many at once as memory allows."""
    crop: Size


def fitting_cover(
    needs: WindowNeeds | None, shape: Sequence[int], crop: Size, config: InferenceConfig
) -> Cover:
    """The windows for a scan of this shape, as `InferenceConfig.window` says.

    They have the crop's size, or are as large as memory allows. Neighbours have as many voxels in
    common as windows of the crop's size would have. Without needs only the crop's size is allowed.
    """
    if needs is None or config.window == "crop" or config.stride is not None:
        return Cover(crop, config, crop)
    shared = tuple(n - step for n, step in zip(crop, strides(crop, config.overlap), strict=True))
    window, most = largest_window(needs, shape, crop, shared, config.memory_gb * 1e9)
    fractions = tuple(voxels / length for voxels, length in zip(shared, window, strict=True))
    batch = max(1, min(config.batch, most))
    return Cover(window, config.model_copy(update={"overlap": fractions, "batch": batch}), crop)


def largest_window(
    needs: WindowNeeds, shape: Sequence[int], crop: Size, shared: Size, memory: float
) -> tuple[Size, int]:
    """The largest window for a scan within so many bytes, and how many may go through at once.

    Where one window for the whole scan would take too much memory, the scan is split evenly, along
    one axis after the other, and never into windows shorter than the crop.

    Args:
        needs: of the networks that windows go through.
        shape: of the scan.
        crop: the smallest window.
        shared: voxels that neighbouring windows have in common along each axis.
        memory: in bytes.
    """
    stride = needs.multiple_of
    flat = len(crop) - len(stride)  # the axis of the slices in 2D projects
    lengths = [[1]] * flat + [
        list(_lengths(*axis))
        for axis in zip(shape[flat:], crop[flat:], stride, shared[flat:], strict=True)
    ]
    demand = Demand(tuple(shape), needs)
    window = _largest(lengths, demand, memory)
    return window, demand.windows_within(window, memory)


@dataclass(frozen=True, slots=True)
class Demand:
    """An estimate of the memory that windows of any size take for one scan."""

    shape: Size
    needs: WindowNeeds

    def bytes_for(self, window: Size) -> int:
        """Of one window that goes through the network, and of the sums."""
        return prod(window) * self.needs.voxel_bytes + self._of_sums(window)

    def windows_within(self, window: Size, most: float) -> int:
        """How many windows may go through at once."""
        return int((most - self._of_sums(window)) // (prod(window) * self.needs.voxel_bytes))

    def _of_sums(self, window: Size) -> int:
        band = list(map(max, self.shape, window))
        axis = piece_axis(self.shape, window)
        band[axis] = window[axis]
        return prod(band) * self.needs.sum_bytes


def _lengths(length: int, crop: int, stride: int, shared: int) -> Iterator[int]:
    """Lengths of windows that cover an axis in 1, 2, ... parts, down to the crop's."""
    last, parts = 0, 1
    while last != crop:
        even = -(-(length + (parts - 1) * shared) // parts)
        found = max(crop, -(-even // stride) * stride)
        if found != last:
            yield found
        last, parts = found, parts + 1


def _largest(lengths: list[list[int]], demand: Demand, most: float) -> Size:
    """Take the largest window within so many bytes, or the smallest; longest lengths come first."""
    places = [0] * len(lengths)

    def window(places: Sequence[int]) -> Size:
        return tuple(axis[place] for axis, place in zip(lengths, places, strict=True))

    while demand.bytes_for(window(places)) > most:
        splits = [
            [*places[:axis], places[axis] + 1, *places[axis + 1 :]]
            for axis in range(len(lengths))
            if places[axis] + 1 < len(lengths[axis])
        ]
        if not splits:
            break
        places = min(splits, key=lambda each: demand.bytes_for(window(each)))
    return window(places)
