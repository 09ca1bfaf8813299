"""Steps of a MONAI bundle that are exactly those of tracoco, where MONAI's own differ a little.

This file is copied into every exported bundle. It needs MONAI, and nothing of tracoco.
"""

from __future__ import annotations

from itertools import product
from math import ceil, prod
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from monai.data.utils import affine_to_spacing
from monai.inferers import Inferer
from monai.transforms import InvertibleTransform, MapTransform, Resize
from monai.utils import convert_to_dst_type, convert_to_tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray


class Intensitiesd(MapTransform):  # type: ignore[misc]  # MONAI's
    """Normalise each channel."""

    def __init__(self, keys: str, channels: Sequence[Mapping[str, Any]]) -> None:
        """`channels` has the arguments of `normalised` for each channel."""
        super().__init__(keys)
        self.channels = channels

    def __call__(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """The same items, normalised."""
        changed = dict(data)
        for key in self.keys:
            image = changed[key]
            arrays = [
                normalised(np.asarray(channel), **how)
                for channel, how in zip(image, self.channels, strict=True)
            ]
            stacked = torch.from_numpy(np.stack(arrays))
            changed[key] = convert_to_dst_type(stacked, image)[0]
        return changed


def normalised(  # noqa: PLR0913 - what a plan says of a channel
    values: NDArray[np.float32],
    *,
    normalisation: str,
    percentiles: tuple[float, float],
    window: tuple[float, float] | None = None,
    mean_sd: tuple[float, float] | None = None,
    above: float | None = None,
    farthest: float = np.inf,
) -> NDArray[np.float32]:
    """One channel of a scan, normalised.

    Args:
        values: all voxels of the scan.
        normalisation: `range` brings values to [0, 1], `zscore` to mean 0 and deviation 1.
        percentiles: what lies outside of them is clipped where there is no window.
        window: values at which every scan is clipped.
        mean_sd: for every scan, where there is a window; otherwise they are those of the scan.
        above: they are of voxels above this part of the way from the lower percentile to the
            higher one; of all voxels if not given.
        farthest: bound on the result for `zscore` without a window.
    """
    if normalisation == "range":
        low, high = window or np.percentile(values, percentiles)
        if high <= low:
            low, high = values.min(), values.max()
        if high <= low:
            return np.zeros_like(values)
        scaled: NDArray[np.float32] = (values - np.float32(low)) / np.float32(high - low)
        return scaled.clip(0, 1)
    if window and mean_sd:
        return _standardised(values.clip(*window), *mean_sd)
    counted = values
    if above is not None:
        low, high = np.percentile(values, percentiles)
        counted = values[values > low + above * (high - low)]
    low, high = np.percentile(counted, percentiles) if counted.size else (0.0, 0.0)
    if high <= low:
        return np.zeros_like(values)
    clipped = counted.clip(np.float32(low), np.float32(high))
    mean, sd = clipped.mean(dtype=np.float64), clipped.std(dtype=np.float64)
    return _standardised(values, mean, sd).clip(-farthest, farthest)


def _standardised(values: NDArray[np.float32], mean: float, sd: float) -> NDArray[np.float32]:
    result: NDArray[np.float32] = (values - np.float32(mean)) / np.float32(sd)
    return result


class _ToSpacing(Resize):  # type: ignore[misc]  # MONAI's
    """Resize an image so that its voxels have the sides that are asked for, as nearly as it goes.

    The first and the last face of the image stay where they are. MONAI's `Spacing` keeps the
    centre of the first voxel and the exact sides, which shifts all values by a part of a voxel.
    """

    def __init__(self, spacing: Sequence[float | None]) -> None:
        super().__init__(spatial_size=-1, mode="trilinear", align_corners=False)
        self.spacing = spacing

    def __call__(self, image: Any) -> Any:
        sides = affine_to_spacing(image.affine, dtype=float)
        sizes = zip(image.shape[1:], sides, self.spacing, strict=True)
        self.spatial_size = [
            n if wanted is None else max(1, round(n * float(side) / wanted))
            for n, side, wanted in sizes
        ]
        return super().__call__(image)


class ToSpacingd(MapTransform, InvertibleTransform):  # type: ignore[misc]  # MONAI's
    """Bring images to a spacing by linear interpolation, and predictions back in the same way."""

    def __init__(self, keys: str, spacing: Sequence[float | None]) -> None:
        """`spacing` has None for an axis that stays as it is."""
        super().__init__(keys)
        self.resize = _ToSpacing(spacing)

    def __call__(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """The same items at the spacing."""
        changed = dict(data)
        for key in self.key_iterator(changed):
            changed[key] = self.resize(changed[key])
        return changed

    def inverse(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """The same items as large as they were."""
        changed = dict(data)
        for key in self.key_iterator(changed):
            changed[key] = self.resize.inverse(changed[key])
        return changed


class Windows(Inferer):  # type: ignore[misc]  # MONAI's
    """Means of the predictions of windows that cover a scan.

    For an overlap they are spread evenly. MONAI's `SlidingWindowInferer` has the same distance
    between all windows but the last two.
    """

    def __init__(  # noqa: PLR0913 - settings of a run
        self,
        window: Sequence[int],
        steps: Sequence[int],
        axes: Sequence[int] = (0, 1, 2),
        *,
        even: bool = True,
        gaussian: bool = True,
        batch: int = 1,
        slices: bool = False,
        larger: Mapping[str, Any] | None = None,
    ) -> None:
        """Settings of the windows.

        Args:
            window: their size.
            steps: distance of neighbours along each axis, at most.
            axes: the axis of a scan that is the first, second and third of the windows.
            even: whether windows are spread evenly; else the last one is moved to the end.
            gaussian: whether voxels at the borders of a window count less.
            batch: how many windows go through the network at once, at most.
            slices: whether the network sees slices across the first axis.
            larger: arguments of `larger_window`, if windows may be larger.
        """
        super().__init__()
        self.window, self.steps, self.axes = tuple(window), tuple(steps), tuple(axes)
        self.even, self.gaussian, self.batch = even, gaussian, batch
        self.slices, self.larger = slices, larger

    def __call__(
        self, inputs: Any, network: Callable[..., torch.Tensor], *args: Any, **kwargs: Any
    ) -> Any:
        """Class probabilities [B, K, X, Y, Z] of scans [B, C, X, Y, Z]."""
        scans = convert_to_tensor(inputs, track_meta=False)
        there = (0, *(1 + axis for axis in self.axes))
        back = [there.index(axis) for axis in range(4)]

        def predict(crops: torch.Tensor) -> torch.Tensor:
            if self.slices:
                return network(crops.squeeze(2), *args, **kwargs).unsqueeze(2)
            return network(crops, *args, **kwargs)

        found = [self._one(scan.permute(there), predict).permute(back) for scan in scans]
        return convert_to_dst_type(torch.stack(found), inputs)[0]

    def _one(self, scan: torch.Tensor, predict: Callable[..., torch.Tensor]) -> torch.Tensor:
        shape = tuple(scan.shape[1:])
        window, steps, batch = self._fitting(shape)
        # A scan smaller than the crop lies in the middle of it, as in training.
        before = [max(0, c - n) // 2 for c, n in zip(self.window, shape, strict=True)]
        lengths = [max(n, w) for n, w in zip(shape, window, strict=True)]
        behind = [length - n - b for length, n, b in zip(lengths, shape, before, strict=True)]
        pads = [side for axis in (2, 1, 0) for side in (before[axis], behind[axis])]
        padded = F.pad(scan, pads)
        places = list(product(*map(self._along, lengths, window, steps)))
        weight = self._weight(window).to(scan.device)
        total = torch.zeros_like(padded[0])
        summed: torch.Tensor | None = None
        for first in range(0, len(places), batch):
            some = places[first : first + batch]
            crops = torch.stack([padded[(slice(None), *place)] for place in some])
            for place, prediction in zip(some, predict(crops), strict=True):
                if summed is None:
                    summed = prediction.new_zeros(len(prediction), *lengths)
                summed[(slice(None), *place)] += prediction * weight
                total[place] += weight
        if summed is None:
            raise ValueError("a scan has at least one window")
        summed /= total
        ends = [b + n for b, n in zip(before, shape, strict=True)]
        return summed[(slice(None), *map(slice, before, ends))]

    def _fitting(self, shape: Sequence[int]) -> tuple[Sequence[int], Sequence[int], int]:
        """Windows, steps and windows at once for a scan of this shape."""
        if self.larger is None:
            return self.window, self.steps, self.batch
        shared = [w - step for w, step in zip(self.window, self.steps, strict=True)]
        window, most = larger_window(shape, self.window, shared, **self.larger)
        steps = [max(1, w - s) for w, s in zip(window, shared, strict=True)]
        return window, steps, max(1, min(self.batch, most))

    def _along(self, length: int, window: int, step: int) -> list[slice]:
        """The windows along one axis."""
        room = length - window
        count = ceil(room / step) + 1
        starts = [min(i * step, room) for i in range(count)]
        if self.even:
            starts = [round(i * room / max(count - 1, 1)) for i in range(count)]
        return [slice(start, start + window) for start in starts]

    def _weight(self, window: Sequence[int]) -> torch.Tensor:
        """How much each voxel of a window counts: all alike, or as a Gaussian says."""
        weight = torch.ones(tuple(window))
        for axis, length in enumerate(window):
            place = (torch.arange(length) - (length - 1) / 2) / (length / 4)
            bell = torch.exp(-0.5 * place**2) if self.gaussian else torch.ones(length)
            weight *= bell.reshape([-1 if i == axis else 1 for i in range(len(window))])
        return weight


def larger_window(  # noqa: PLR0913 - what a window hangs on
    shape: Sequence[int],
    crop: Sequence[int],
    shared: Sequence[int],
    *,
    multiple_of: Sequence[int],
    voxel_bytes: int,
    sum_bytes: int,
    memory: float,
) -> tuple[tuple[int, ...], int]:
    """The largest window for a scan within so many bytes, and how many may go through at once.

    Where one window for the whole scan would take too much memory, the scan is split evenly, along
    one axis after the other, and never into windows shorter than the crop.
    """
    flat = len(crop) - len(multiple_of)  # the axis of the slices
    axes = list(zip(shape[flat:], crop[flat:], multiple_of, shared[flat:], strict=True))
    lengths = [[1]] * flat + [_lengths(*axis) for axis in axes]

    def of_sums(window: Sequence[int]) -> int:
        fractions = [w / n for w, n in zip(window, shape, strict=True)]
        band = list(map(max, shape, window))
        axis = fractions.index(min(fractions))
        band[axis] = window[axis]
        return prod(band) * sum_bytes

    def needed(places: Sequence[int]) -> int:
        window = [axis[place] for axis, place in zip(lengths, places, strict=True)]
        return prod(window) * voxel_bytes + of_sums(window)

    places = [0] * len(lengths)
    while needed(places) > memory:
        smaller = [
            [*places[:axis], place + 1, *places[axis + 1 :]]
            for axis, place in enumerate(places)
            if place + 1 < len(lengths[axis])
        ]
        if not smaller:
            break
        places = min(smaller, key=needed)
    window = tuple(axis[place] for axis, place in zip(lengths, places, strict=True))
    return window, int((memory - of_sums(window)) // (prod(window) * voxel_bytes))


def _lengths(length: int, crop: int, multiple: int, shared: int) -> list[int]:
    """Lengths of windows that cover an axis in 1, 2, ... parts, down to the crop's."""
    found: list[int] = []
    parts = 1
    while not found or found[-1] != crop:
        even = ceil((length + (parts - 1) * shared) / parts)
        wanted = max(crop, ceil(even / multiple) * multiple)
        if not found or wanted != found[-1]:
            found.append(wanted)
        parts += 1
    return found
