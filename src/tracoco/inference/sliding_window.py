"""Sliding window: a volume of any size through a network that sees one window at a time."""

from collections.abc import Callable, Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from tracoco.config import InferenceConfig
from tracoco.geometry import Box, Size, piece_axis
from tracoco.inference.any_size import networks_of_any_size, window_needs
from tracoco.inference.windows import Cover, fitting_cover, padding, window_places, window_weight
from tracoco.memory import freed_memory_kept, reused_blocks
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


def chosen_cover(
    method: Method, shape: Sequence[int], crop: Size, config: InferenceConfig
) -> Cover:
    """The windows for a scan of this shape, as the settings and the method's networks allow."""
    networks = networks_of_any_size(method) if config.window == "auto" else []
    return fitting_cover(window_needs(networks) if networks else None, shape, crop, config)


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
    weight = torch.from_numpy(window_weight(window, config.weights)).to(volume.device)
    sums = WindowSums(weight, padded, axis)
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


def _padded(volume: Tensor, window: Size, crop: Size) -> tuple[Tensor, Box]:
    """The volume made at least as large as a window, and where the volume lies in it."""
    shape = tuple(volume.shape[1:])
    amounts = padding(shape, window, crop)
    pads = [amount for axis in reversed(amounts) for amount in axis]
    padded = F.pad(volume, pads) if any(pads) else volume  # which may be large: no copy of it
    return padded, Box(tuple(before for before, _ in amounts), shape)


def _predict_windows(predict: Predict, volume: Tensor, boxes: list[Box]) -> Tensor:
    crops = torch.stack([volume[:, *box.slices] for box in boxes])
    flat = boxes[0].size[0] == 1
    with reused_blocks():
        prediction = predict(crops.squeeze(2) if flat else crops)
    return prediction.unsqueeze(2) if flat else prediction
