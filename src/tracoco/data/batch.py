"""What a training step is given: crops, their labels, and where they come from."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from tracoco.geometry import Box, Index, overlap


@dataclass(frozen=True, slots=True)
class Crops:
    """A batch of crops, [B, C, ...], with what is known of each."""

    values: Tensor
    valid: Tensor
    """False where a crop is padding, [B, ...]."""
    start: tuple[Index, ...]
    """Place of each crop in its oriented volume."""

    def to(self, device: torch.device) -> "Crops":
        """The same crops on another device."""
        return replace(self, values=_move(self.values, device), valid=_move(self.valid, device))

    def pin_memory(self) -> "Crops":
        """The same crops in memory that a GPU copies from by itself."""
        values, valid = self.values.pin_memory(), self.valid.pin_memory()
        return replace(self, values=values, valid=valid)


@dataclass(frozen=True, slots=True)
class Batch:
    """One step's crops. Unlabelled crops have no label to leak: `labels` is [L, ...]."""

    first: Crops
    second: Crops
    """Without voxels where the method looks at first crops alone."""
    labels: Tensor
    """Bytes while they are on their way; an eighth of what the losses' integers would be."""
    cases: tuple[str, ...]

    @property
    def labelled_count(self) -> int:
        """How many crops, from the front, have a label."""
        return len(self.labels)

    @property
    def overlaps(self) -> list[tuple[Box, Box]]:
        """Where the crops of each pair meet, as seen from the first and from the second."""
        size = tuple(self.first.valid.shape[1:])
        pairs = zip(self.first.start, self.second.start, strict=True)
        return [overlap(first, second, size) for first, second in pairs]

    @property
    def mean_shift(self) -> float:
        """Mean shift between the crops of a pair, as a share of the crop."""
        size = self.first.valid.shape[1:]
        shift = np.subtract(self.first.start, self.second.start)
        return float((np.abs(shift) / size).mean())

    def to(self, device: torch.device) -> "Batch":
        """The same batch on another device, with labels as losses want them."""
        labels = _move(self.labels, device).long()
        return Batch(self.first.to(device), self.second.to(device), labels, self.cases)

    def pin_memory(self) -> "Batch":
        """The same batch in pinned memory; torch's loader asks for it by this name."""
        first, second = self.first.pin_memory(), self.second.pin_memory()
        return Batch(first, second, self.labels.pin_memory(), self.cases)


def _move(tensor: Tensor, device: torch.device) -> Tensor:
    # A GPU does what it is told in order, so nothing is computed before the copy has arrived.
    return tensor.to(device, non_blocking=device.type == "cuda")
