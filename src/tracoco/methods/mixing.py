"""3D CutMix: a box of one unlabelled crop is replaced by the same box of another."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.distributions import Beta

from tracoco.errors import UserError


@dataclass(frozen=True, slots=True)
class Mix:
    """Which crop gives to which, and in which box."""

    partner: Tensor
    """Index of the crop that each crop takes from, [B]."""
    mask: Tensor
    """True in the box that is taken from the partner, [B, ...]."""

    def __call__(self, values: Tensor) -> Tensor:
        """Mix crops or probabilities [B, C, ...] or masks [B, ...], Eq. (9)."""
        extra = values.ndim - self.mask.ndim
        mask = self.mask.reshape(len(self.mask), *(1,) * extra, *self.mask.shape[1:])
        return torch.where(mask, values[self.partner], values)


def check_partners(unlabelled_batch: int) -> None:
    """Refuse batches in which no crop has a partner."""
    if unlabelled_batch < 2:
        raise UserError(
            "CutMix mixes unlabelled crops with each other, but a batch has "
            f"{unlabelled_batch}; set data.unlabelled_batch to 2 or more, or method.cutmix to false"
        )


def draw_mix(count: int, size: tuple[int, ...], device: torch.device) -> Mix:
    """Draw partners and boxes; no crop is its own partner.

    A box holds 1 - b of the crop's volume with b from Beta(4, 4), lies wherever it fits, and is
    as long, relative to the crop, along every axis.
    """
    turn = int(torch.randint(1, count, ()))
    partner = (torch.arange(count) + turn) % count
    masks = torch.stack([_draw_box(size) for _ in range(count)])
    return Mix(partner.to(device), masks.to(device))


def _draw_box(size: tuple[int, ...]) -> Tensor:
    side = (1 - Beta(4.0, 4.0).sample()) ** (1 / len(size))
    mask = torch.zeros(size, dtype=torch.bool)
    # The paper's box is smaller than the crop along every axis: never a slab through it.
    lengths = [max(1, min(n - 1, round(float(side) * n))) for n in size]
    starts = [int(torch.randint(n - m + 1, ())) for n, m in zip(size, lengths, strict=True)]
    mask[tuple(slice(a, a + m) for a, m in zip(starts, lengths, strict=True))] = True
    return mask
