"""Weighted sums of windows' answers, kept only where a window can still reach."""

from collections.abc import Iterator

import torch
from torch import Tensor

from tracoco.geometry import Box

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

    def add(self, box: Box, answer: Tensor) -> None:
        """Add what a window says; it must start where the band does."""
        if self.summed is None:
            self.summed = answer.new_zeros(len(answer), *self.total.shape, dtype=torch.float32)
        origin = [0] * self.total.ndim
        origin[self.axis] = self.first
        place = box.seen_from(tuple(origin)).slices
        self.summed[:, *place].addcmul_(answer.detach(), self.weight)  # no map in between
        self.total[place] += self.weight

    def finish(self, until: int, inside: Box) -> Iterator[Tensor]:
        """Give the means [K, ...] of all rows before `until`, and move the band there.

        Rows outside of the box `inside` are padding, and left out.
        """
        if self.summed is None or until == self.first:
            return
        low = max(self.first, inside.start[self.axis])
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
