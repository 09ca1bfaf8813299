"""Linear interpolation of maps that come piece by piece, so that no whole map need be held."""

from collections.abc import Iterable, Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor


def resampled(
    pieces: Iterable[Tensor], axis: int, source: Sequence[int], target: Sequence[int]
) -> Iterator[tuple[slice, Iterator[Tensor]]]:
    """Rows of the target grid, and their values map by map.

    The values are those of `torch.nn.functional.interpolate` on whole maps, but for rounding
    (below 1e-5 for probabilities). The maps of a piece must be used before the next is asked for.

    Args:
        pieces: maps [K, ...] of a few rows along `axis` each, one piece after the other.
        axis: of the grids, which the pieces follow.
        source: shape of the whole maps.
        target: shape that they shall have.
    """
    low, high, share = _neighbours(source[axis], target[axis])
    plane = [length for index, length in enumerate(target) if index != axis]
    held: Tensor | None = None
    first = done = 0
    for piece in pieces:
        rows = piece.movedim(axis + 1, 1)
        held = rows if held is None else torch.cat([held, rows], dim=1)
        end = first + held.shape[1]
        ready = int((high < end).sum())  # both neighbours have come
        place = slice(done, ready)
        if ready > done:
            near = (low[place] - first, high[place] - first, share[place])
            yield place, _maps(held, near, plane, axis)
        # A row that waits for its upper neighbour has the last row as its lower one.
        held, first, done = held[:, -1:].clone(), end - 1, ready


def _maps(
    rows: Tensor, near: tuple[Tensor, Tensor, Tensor], plane: list[int], axis: int
) -> Iterator[Tensor]:
    low, high, share = (each.to(rows.device) for each in near)
    for one in rows:
        flat = one
        if list(one.shape[1:]) != plane:
            flat = F.interpolate(one[None], size=plane, mode="bilinear", align_corners=False)[0]
        below = flat[low]
        between = torch.lerp(below, flat[high], share[:, None, None]) if share.any() else below
        yield between.movedim(0, axis)


def _neighbours(source: int, target: int) -> tuple[Tensor, Tensor, Tensor]:
    """For each target row the rows below and above its centre, and the share of the upper one."""
    place = ((torch.arange(target) + 0.5) * (source / target) - 0.5).clamp(min=0)
    low = place.long().clamp(max=source - 1)
    share = place - low
    # A row that lies on another needs no second one, so nothing waits where nothing is resampled.
    high = torch.where(share > 0, low + 1, low).clamp(max=source - 1)
    return low, high, share
