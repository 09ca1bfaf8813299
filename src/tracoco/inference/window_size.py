"""How large the windows of a scan are: by the networks' needs and by memory; without torch."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from tracoco.config import InferenceConfig
from tracoco.geometry import Size, piece_axis
from tracoco.inference.windows import strides
from tracoco.settings import Settings


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
