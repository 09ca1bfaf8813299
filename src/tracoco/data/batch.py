"""What a training step is given: crops, their labels, and where they come from."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from tracoco.geometry import Box, Index, overlap

TensorPair = tuple[Tensor, Tensor, tuple[Box, Box]]
"""Two crops [C, ...] of one volume, and the box of their overlap as seen from each of them."""

IGNORED = 255
"""A pseudo-label that does not count; classes are fewer."""


@dataclass(frozen=True, slots=True)
class Crops:
    """A batch of crops, [B, C, ...], with what is known of each."""

    values: Tensor
    valid: Tensor
    """False where a crop is padding, or of a label that is not drawn there, [B, ...]."""
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
    """Without voxels where the method uses first crops only."""
    labels: Tensor
    """Bytes while they are on their way; an eighth of what the losses' integers would be."""
    cases: tuple[str, ...]
    pseudo_labels: Tensor | None = None
    """Labels of the unlabelled crops that an earlier run has predicted, [U, ...], `IGNORED` where
    that was unsure; only for methods whose row asks for them."""
    unlabelled_counts: bool = True
    """False while the trainer gives a weight of 0 to all loss terms that do not come from labels. A
    method may leave them out then, with the passes that nothing else needs; the pseudo-labels are
    still wanted, since they tell when unlabelled crops may count."""

    @classmethod
    def from_pairs(
        cls,
        pairs: Sequence[TensorPair],
        labels: Tensor,
        cases: Sequence[str] = (),
        pseudo_labels: Tensor | None = None,
    ) -> "Batch":
        """Crop pairs without padding as a method takes them, those with a label first.

        Args:
            pairs: what `crop_pair` returns, of one volume each.
            labels: class indices of the first crops of the first L pairs, [L, ...].
            cases: names of the volumes; only `caml` uses them.
            pseudo_labels: of the first crops of all other pairs; only `noisy-student` uses them.
        """
        first, second, overlaps = zip(*pairs, strict=True)
        shifts = [np.subtract(here.start, there.start).tolist() for here, there in overlaps]
        names = tuple(cases) or tuple(map(str, range(len(pairs))))
        return cls(
            _without_padding(first, [(0,) * len(shift) for shift in shifts]),
            _without_padding(second, [tuple(shift) for shift in shifts]),
            labels.long(),
            names,
            None if pseudo_labels is None else pseudo_labels.long(),
        )

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
        """Mean shift between the crops of a pair, as a fraction of the crop."""
        size = self.first.valid.shape[1:]
        shift = np.subtract(self.first.start, self.second.start)
        return float((np.abs(shift) / size).mean())

    def to(self, device: torch.device) -> "Batch":
        """The same batch on another device, with labels as losses want them."""
        labels, pseudo = _move(self.labels, device).long(), self.pseudo_labels
        if pseudo is not None:
            pseudo = _move(pseudo, device).long()
        first, second = self.first.to(device), self.second.to(device)
        return replace(self, first=first, second=second, labels=labels, pseudo_labels=pseudo)

    def pin_memory(self) -> "Batch":
        """The same batch in pinned memory; torch's loader asks for it by this name."""
        first, second = self.first.pin_memory(), self.second.pin_memory()
        pseudo = None if self.pseudo_labels is None else self.pseudo_labels.pin_memory()
        labels = self.labels.pin_memory()
        return replace(self, first=first, second=second, labels=labels, pseudo_labels=pseudo)


def _without_padding(crops: Sequence[Tensor], start: Sequence[Index]) -> Crops:
    values = torch.stack(list(crops))
    return Crops(values, torch.ones_like(values[:, 0], dtype=torch.bool), tuple(start))


def _move(tensor: Tensor, device: torch.device) -> Tensor:
    # A GPU does what it is told in order, so nothing is computed before the copy has arrived.
    return tensor.to(device, non_blocking=device.type == "cuda")
