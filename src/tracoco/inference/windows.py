"""Where windows lie, how much their voxels count, and how maps are resized; without torch."""

from collections.abc import Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from tracoco.config import InferenceConfig
from tracoco.errors import UserError
from tracoco.geometry import Box, Size, start_range, windows


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
