"""Crops with what is known of them, and boxes of some that are pasted into others (BCP)."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tracoco.methods.mixing import place_box


@dataclass(frozen=True, slots=True)
class Known:
    """Crops with what is taken for their labels."""

    crops: Tensor
    """[B, channels, ...]."""
    labels: Tensor
    """[B, ...]."""
    inside: Tensor
    """False where the crops are padding, [B, ...]."""

    def take(self, chosen: Tensor | slice) -> "Known":
        """Some of the crops, in this order."""
        return Known(self.crops[chosen], self.labels[chosen], self.inside[chosen])

    def paste(self, other: "Known", box: Tensor) -> "Known":
        """The same crops with what other crops hold in the box, [...], pasted in."""
        return Known(
            torch.where(box, other.crops, self.crops),
            torch.where(box, other.labels, self.labels),
            torch.where(box, other.inside, self.inside),
        )


def draw_box(size: Sequence[int], share: float) -> Tensor:
    """A mask that is true in a box as long as this share of each axis, wherever it fits."""
    return place_box(size, {axis: max(1, int(share * n)) for axis, n in enumerate(size)})
