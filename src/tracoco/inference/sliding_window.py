"""Sliding window: a volume of any size through a network that sees one window at a time."""

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from tracoco.config import InferenceConfig
from tracoco.errors import UserError
from tracoco.geometry import Box, Size, piece_axis, start_range, windows
from tracoco.inference.window_size import largest_window, networks_of_any_size
from tracoco.malloc import freed_memory_kept, reused_blocks
from tracoco.methods.method import Method

PIECE = 4
"""Rows that are handed on at once; what is made of them at full size stays small."""


class WindowSums:
    """A band of rows, as long as a window, that moves along one axis of a volume.

    Windows must come in the order of their starts along that axis.
    """

    def __init__(self, weight: Tensor, volume: Tensor, axis: int) -> None:
        """`weight` is that of a window's voxels; `volume` [C, ...] is what the windows lie in."""
        self.weight, self.axis, self.first = weight, axis, 0
        shape = list(volume.shape[1:])
        shape[axis] = weight.shape[axis]
        self.total = torch.zeros(shape, device=volume.device)
        self.summed: Tensor | None = None

    def add(self, box: Box, prediction: Tensor) -> None:
        """Add what a window says; it must start where the band does."""
        if self.summed is None:
            self.summed = prediction.new_zeros(
                len(prediction), *self.total.shape, dtype=torch.float32
            )
        origin = [0] * self.total.ndim
        origin[self.axis] = self.first
        place = box.seen_from(tuple(origin)).slices
        self.summed[:, *place].addcmul_(prediction.detach(), self.weight)  # no map in between
        self.total[place] += self.weight

    def finish(self, until: int, valid: Box) -> Iterator[Tensor]:
        """Give the means [K, ...] of all rows before `until`, and move the band there.

        Rows outside of the box `valid` are padding, and left out.
        """
        if self.summed is None or until == self.first:
            return
        low = max(self.first, valid.start[self.axis])
        for start in range(low, until, PIECE):
            place = (self.axis, start - self.first, min(PIECE, until - start))
            total = self.total.narrow(*place)
            yield self.summed.narrow(place[0] + 1, *place[1:]) / total
        self._move(until - self.first)

    def _move(self, rows: int) -> None:
        assert self.summed is not None  # noqa: S101 - `finish` has seen to it
        kept = max(self.total.shape[self.axis] - rows, 0)
        for one in (*self.summed, self.total):  # one class at a time: a copy of all is large
            if kept:
                one.narrow(self.axis, 0, kept).copy_(one.narrow(self.axis, rows, kept).clone())
            one.narrow(self.axis, kept, one.shape[self.axis] - kept).zero_()
        self.first += rows


class Cover(NamedTuple):
    """Windows for a scan."""

    window: Size
    config: InferenceConfig
    """With the overlap as a fraction of these windows, and as many at once as memory allows."""
    crop: Size


def chosen_cover(
    method: Method, shape: Sequence[int], crop: Size, config: InferenceConfig
) -> Cover:
    """The windows for a scan of this shape, as `InferenceConfig.window` says.

    They have the crop's size, or are as large as memory allows. Neighbours have as many voxels in
    common as windows of the crop's size would have.
    """
    free = config.window == "auto" and config.stride is None
    networks = networks_of_any_size(method) if free else []
    if not networks:
        return Cover(crop, config, crop)
    shared = tuple(n - step for n, step in zip(crop, strides(crop, config.overlap), strict=True))
    window, most = largest_window(networks, shape, crop, shared, config.memory_gb * 1e9)
    fractions = tuple(voxels / length for voxels, length in zip(shared, window, strict=True))
    batch = max(1, min(config.batch, most))
    return Cover(window, config.model_copy(update={"overlap": fractions, "batch": batch}), crop)


Predict = Callable[[Tensor], Tensor]
"""Crops [B, C, ...] to class probabilities [B, K, ...]."""


def predict_volume(
    predict: Predict,
    volume: Tensor,
    window: Size,
    config: InferenceConfig,
    crop: Size | None = None,
) -> Tensor:
    """Class probabilities [K, X, Y, Z] of a volume [C, X, Y, Z], on the volume's device.

    Args:
        predict: the network with its softmax; a window one slice thick reaches it as 2D crops.
        volume: the scan as it was prepared for training.
        window: size of a window; `chosen_cover` chooses it.
        config: stride or overlap of the windows, their weights, how many go through at once.
        crop: the crop's size, where a window is larger. A smaller scan is padded to the crop on
            both sides, as in training; what a window has beyond that lies behind the scan.
    """
    whole: Tensor | None = None
    axis, done = piece_axis(volume.shape[1:], window), 0
    for piece in predict_pieces(predict, volume, window, config, crop):
        if whole is None:
            whole = piece.new_empty(len(piece), *volume.shape[1:])
        rows = piece.shape[axis + 1]
        whole.narrow(axis + 1, done, rows).copy_(piece)
        done += rows
    assert whole is not None, "a volume has at least one window"  # noqa: S101 - cannot happen
    return whole


def predict_pieces(
    predict: Predict,
    volume: Tensor,
    window: Size,
    config: InferenceConfig,
    crop: Size | None = None,
) -> Iterator[Tensor]:
    """The same probabilities, a few rows along `piece_axis` after the other.

    Sums are kept only of rows that a window can still reach: of a large scan with many classes
    all probabilities at once would not fit in memory.
    """
    axis = piece_axis(volume.shape[1:], window)
    padded, inner = _padded(volume, window, crop or window)
    places = window_places(tuple(padded.shape[1:]), window, config)
    places.sort(key=lambda box: box.start[axis])
    sums = WindowSums(window_weight(window, config.weights).to(volume.device), padded, axis)
    across = [slice(None), *inner.slices]
    across[axis + 1] = slice(None)
    with freed_memory_kept():
        for first in range(0, len(places), config.batch):
            boxes = places[first : first + config.batch]
            for box, prediction in zip(
                boxes, _predict_windows(predict, padded, boxes), strict=True
            ):
                yield from (piece[*across] for piece in sums.finish(box.start[axis], inner))
                sums.add(box, prediction)
    yield from (piece[*across] for piece in sums.finish(inner.stop[axis], inner))


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


def window_weight(window: Size, kind: str) -> Tensor:
    """How much each voxel of a window counts: all alike, or less towards the borders.

    A network sees less around a voxel at the border, but what several windows say together is
    better than what one says. The Gaussian has a standard deviation of a quarter of the window:
    with an eighth, as is usual, all but the window in whose middle a voxel lies hardly count.
    """
    weight = torch.ones(window)
    if kind == "gaussian":
        for axis, length in enumerate(window):
            position = torch.arange(length) - (length - 1) / 2
            bell = torch.exp(-0.5 * (position / (length / 4)) ** 2)
            shape = [length if i == axis else 1 for i in range(len(window))]
            weight = weight * bell.reshape(shape)
    return weight


def _padded(volume: Tensor, window: Size, crop: Size) -> tuple[Tensor, Box]:
    """The volume made at least as large as a window, and where the volume lies in it."""
    shape = tuple(volume.shape[1:])
    before = [-start_range(n, length)[0] for n, length in zip(shape, crop, strict=True)]
    after = [max(0, w - n) - b for n, w, b in zip(shape, window, before, strict=True)]
    pads = [
        amount for pair in zip(reversed(before), reversed(after), strict=True) for amount in pair
    ]
    padded = F.pad(volume, pads) if any(pads) else volume  # which may be large: no copy of it
    return padded, Box(tuple(before), shape)


def _predict_windows(predict: Predict, volume: Tensor, boxes: list[Box]) -> Tensor:
    crops = torch.stack([volume[:, *box.slices] for box in boxes])
    flat = boxes[0].size[0] == 1
    with reused_blocks():
        prediction = predict(crops.squeeze(2) if flat else crops)
    return prediction.unsqueeze(2) if flat else prediction
