"""Patches that show one class alone, chosen by how much of it they hold."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from tracoco.geometry import Size

WANTED = 0.8
"""Fraction of the patches with some voxels of a class that should hold enough of it."""
RATE = 0.01
"""How fast a threshold moves at its first step; at its nth step an nth of that."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """Crops with their labels or what is taken for them, and how unsure the network is."""

    crops: Tensor
    """[B, channels, ...]."""
    label: Tensor
    """[B, ...]."""
    valid: Tensor
    """False where the crops are padding, [B, ...]."""
    entropy: Tensor
    """Of the network's prediction, [B, ...]."""


@dataclass(frozen=True, slots=True)
class Patches:
    """Parts of crops in which all but one class is blanked."""

    values: Tensor
    """[N, channels, ...]."""
    label: Tensor
    """The class that each shows, [N]."""
    holds_enough: Tensor
    """Whether it shows enough of the class to count, [N]."""


class PatchChooser(nn.Module):
    """How much of its class a patch must hold: thresholds that follow what there is."""

    thresholds: Tensor
    steps: Tensor

    def __init__(self, classes: int) -> None:
        super().__init__()
        # For two classes a half, as released: then every patch holds enough of one class or more.
        self.register_buffer("thresholds", torch.full((classes,), 1 / classes))
        self.register_buffer("steps", torch.zeros(classes))

    @torch.no_grad()
    def forward(self, labelled: Labelled, size: Size, count: int) -> Patches:
        """The surest patches of each class, `count` or all that there are; thresholds move on.

        Patches that hold enough come first. Where there are too few, others fill up the number,
        so that it is the same at every step.

        Args:
            labelled: crops.
            size: of a patch; patches lie side by side.
            count: patches of each class.
        """
        crops = grid(labelled.crops, size)
        label = grid(labelled.label.unsqueeze(1), size)
        valid = grid(labelled.valid.unsqueeze(1), size)
        entropy = grid(labelled.entropy.unsqueeze(1), size).flatten(1).mean(dim=1)
        chosen = []
        for value in range(len(self.thresholds)):
            shown = (label == value) & valid
            fraction = shown.flatten(1).float().mean(dim=1)
            enough = fraction > self.thresholds[value]
            surest = (entropy - 1e3 * enough).topk(min(count, len(enough)), largest=False).indices
            values = crops[surest] * shown[surest]
            chosen.append(Patches(values, torch.full_like(surest, value), enough[surest]))
            self._follow(value, (fraction > 0).sum(), enough.sum())
        return Patches(
            torch.cat([patches.values for patches in chosen]),
            torch.cat([patches.label for patches in chosen]),
            torch.cat([patches.holds_enough for patches in chosen]),
        )

    def _follow(self, value: int, candidates: Tensor, kept: Tensor) -> None:
        """Raise the threshold where more than the wanted fraction is kept, else lower it."""
        rate = RATE / self.steps[value].clamp(min=1)
        moved = self.thresholds[value] + rate * (kept - WANTED * candidates)
        self.thresholds[value] = moved.clamp(0, 1)
        self.steps[value] += candidates > 0


def grid(maps: Tensor, size: Sequence[int]) -> Tensor:
    """Maps [B, C, ...] cut into patches side by side, [B times patches, C, *size].

    What is left of a crop behind the last whole patch of an axis is dropped.
    """
    for axis, length in enumerate(size, start=2):
        maps = maps.unfold(axis, length, length)
    patches = range(2, 2 + len(size))
    return maps.movedim(tuple(patches), tuple(range(1, 1 + len(size)))).flatten(0, len(size))


def patch_size(crop: Sequence[int], stride: Sequence[int]) -> Size:
    """A quarter of each axis, as far as the network can halve it and has two voxels left.

    Args:
        crop: a multiple of `stride`, axis by axis.
        stride: what each axis of a patch must be divisible by.
    """
    return tuple(
        min(length, max(2 * step, length // 4 // step * step))
        for length, step in zip(crop, stride, strict=True)
    )
