"""CutMix in any number of dimensions, and the random numbers that methods draw.

They come from torch's generator, which the trainer seeds at every step.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.distributions import Beta

from tracoco.errors import UserError


def uniform(low: float, high: float) -> float:
    """A number between two others, all equally likely."""
    return low + (high - low) * float(torch.rand(()))


def happens(fraction: float) -> bool:
    """True in this fraction of the draws."""
    return uniform(0, 1) < fraction


@dataclass(frozen=True, slots=True)
class Mix:
    """Which crop gives to which, and in which box."""

    partner: Tensor
    """Index of the crop that each crop takes from, [B]."""
    mask: Tensor
    """True in the box that is taken from the partner, [B, ...]."""

    def __call__(self, values: Tensor, given: Tensor | None = None) -> Tensor:
        """Mix crops or probabilities [B, C, ...] or masks [B, ...], Eq. (9).

        Args:
            values: what each crop has of its own.
            given: what it gives to others, of the same shape; `values` if not given.
        """
        extra = values.ndim - self.mask.ndim
        mask = self.mask.reshape(len(self.mask), *(1,) * extra, *self.mask.shape[1:])
        given = values if given is None else given
        return torch.where(mask, given[self.partner], values)

    def to(self, device: torch.device) -> "Mix":
        """The same mix on another device."""
        return Mix(self.partner.to(device), self.mask.to(device))


def check_partners(unlabelled_batch: int, axes: Sequence[int] | None, dimensions: int) -> None:
    """Refuse batches in which no crop has a partner, and axes that crops do not have."""
    if unlabelled_batch < 2:
        raise UserError(
            "CutMix mixes unlabelled crops with each other, but a batch has "
            f"{unlabelled_batch}; set data.unlabelled_batch to 2 or more, or method.cutmix to false"
        )
    if axes is not None and (not axes or max(axes) >= dimensions):
        raise UserError(
            f"method.cutmix_axes is {list(axes)}, but crops have the axes 0 to {dimensions - 1}; "
            "name one or more of them, or leave it out for all"
        )


def draw_mix(count: int, size: Sequence[int], axes: Sequence[int] | None = None) -> Mix:
    """Draw partners and boxes; no crop is its own partner.

    A box holds 1 - b of the crop's volume with b from Beta(4, 4), lies wherever it fits, and is
    as long, relative to the crop, along each of `axes`; along the others it goes through.
    """
    partner = draw_partners(count)
    cut = range(len(size)) if axes is None else sorted(set(axes))
    return Mix(partner, torch.stack([_draw_box(size, cut) for _ in range(count)]))


def draw_small_mix(count: int, size: Sequence[int]) -> Mix:
    """Draw partners and boxes as UniMatch does; every other crop stays whole.

    A box holds 2 to 40 % of the crop's volume and lies wherever it fits. Relative to the crop, its
    second side is 0.3 to 3.3 times its first; a third is that of a cube of the same volume.
    """
    partner = draw_partners(count)
    return Mix(partner, torch.stack([_draw_small_box(size) for _ in range(count)]))


def draw_partners(count: int) -> Tensor:
    """For each of some crops another one, which is the partner of no other crop."""
    turn = int(torch.randint(1, count, ()))
    return (torch.arange(count) + turn) % count


def _draw_box(size: Sequence[int], axes: Sequence[int]) -> Tensor:
    side = float((1 - Beta(4.0, 4.0).sample()) ** (1 / len(axes)))
    # The paper's box is smaller than the crop along every axis: never a slab through it.
    return place_box(
        size, {axis: max(1, min(size[axis] - 1, round(side * size[axis]))) for axis in axes}
    )


def _draw_small_box(size: Sequence[int]) -> Tensor:
    if not happens(0.5):
        return torch.zeros(tuple(size), dtype=torch.bool)
    side = uniform(0.02, 0.4) ** (1 / len(size))
    sides = [math.inf]
    while max(sides) > 1:
        root = math.sqrt(uniform(0.3, 1 / 0.3))
        sides = [side / root, side * root, *[side] * (len(size) - 2)]
    return place_box(
        size, {axis: max(1, int(side * size[axis])) for axis, side in enumerate(sides)}
    )


def place_box(size: Sequence[int], lengths: dict[int, int]) -> Tensor:
    """A mask that is true in a box of these lengths along these axes, wherever it fits."""
    box = [slice(None)] * len(size)
    for axis, length in lengths.items():
        start = int(torch.randint(size[axis] - length + 1, ()))
        box[axis] = slice(start, start + length)
    mask = torch.zeros(tuple(size), dtype=torch.bool)
    mask[tuple(box)] = True
    return mask
