"""Batches: labelled crop pairs, then unlabelled ones, each batch a pure function of its step."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from tracoco.data.crop import Crop
from tracoco.data.crop_pair import CropPair, CropRule, draw_crop_pair
from tracoco.data.draws import Purpose, Stream, cases_at, generator
from tracoco.geometry import Box, Index, overlap
from tracoco.project.store import Store


@dataclass(frozen=True, slots=True)
class Crops:
    """A batch of crops, [B, C, ...], with what is known of each."""

    values: Tensor
    inside: Tensor
    """False where a crop is padding, [B, ...]."""
    start: tuple[Index, ...]
    """Place of each crop in its oriented volume."""

    def to(self, device: torch.device) -> "Crops":
        """The same crops on another device."""
        return replace(self, values=_move(self.values, device), inside=_move(self.inside, device))

    def pin_memory(self) -> "Crops":
        """The same crops in memory that a GPU copies from by itself."""
        values, inside = self.values.pin_memory(), self.inside.pin_memory()
        return replace(self, values=values, inside=inside)


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
        size = tuple(self.first.inside.shape[1:])
        pairs = zip(self.first.start, self.second.start, strict=True)
        return [overlap(first, second, size) for first, second in pairs]

    @property
    def mean_shift(self) -> float:
        """Mean shift between the crops of a pair, as a share of the crop."""
        size = self.first.inside.shape[1:]
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


@dataclass(frozen=True, slots=True)
class Share:
    """Which part of each batch this process makes."""

    rank: int = 0
    world_size: int = 1


@dataclass(frozen=True)
class BatchSource:
    """The batch of any step, from the stored cases; keeps no state."""

    store: Store
    labelled: Sequence[str]
    unlabelled: Sequence[str]
    rule: CropRule
    seed: int
    share: Share = Share()

    def __getitem__(self, step: int) -> Batch:
        """Draw and read the batch of `step`."""
        labelled_batch, unlabelled_batch = self.rule.config.batch
        labelled = self._pairs(Stream.LABELLED, labelled_batch, step)
        unlabelled = self._pairs(Stream.UNLABELLED, unlabelled_batch, step)
        return collate([*labelled, *unlabelled])

    def _pairs(self, stream: Stream, batch: int, step: int) -> Iterator[CropPair]:
        if batch == 0:
            return
        units = self._units[stream]
        whole_batch = batch * self.share.world_size
        chosen = cases_at(step, len(units), whole_batch, seed=self.seed, stream=stream)
        for slot in range(self.share.rank * batch, (self.share.rank + 1) * batch):
            random = generator(self.seed, stream, Purpose.CROP, step, slot)
            id_, slice_ = units[chosen[slot]]
            labelled = stream is Stream.LABELLED
            yield draw_crop_pair(
                self.store.case(id_), self.rule, random, labelled=labelled, slice_=slice_
            )

    @cached_property
    def _units(self) -> dict[Stream, list[tuple[str, int | None]]]:
        """What is drawn equally often: the cases, or every slice of them."""
        streams = {Stream.LABELLED: self.labelled, Stream.UNLABELLED: self.unlabelled}
        if self.rule.config.slice_sampling == "by_case":
            return {stream: [(id_, None) for id_ in ids] for stream, ids in streams.items()}
        return {
            stream: [
                (id_, slice_) for id_ in ids for slice_ in range(self.store.case(id_).shape[0])
            ]
            for stream, ids in streams.items()
        }


def collate(pairs: Sequence[CropPair]) -> Batch:
    """Read and stack crop pairs; a slice axis of length one, as 2D projects have, goes away."""
    flat = pairs[0].first.shape[1] == 1
    labels = [pair.label for pair in pairs if pair.label is not None]

    def stack(crops: Sequence[Crop]) -> Crops:
        values = torch.empty(len(crops), *crops[0].shape)
        for crop, voxels in zip(crops, values.numpy(), strict=True):
            crop.read(voxels)
        inside = stack_inside(crops)
        start = tuple(crop.start for crop in crops)
        if flat:
            return Crops(values.squeeze(2), inside.squeeze(1), tuple(s[1:] for s in start))
        return Crops(values, inside, start)

    label = torch.from_numpy(np.stack(labels))
    return Batch(
        stack([pair.first for pair in pairs]),
        stack([pair.second for pair in pairs]),
        label.squeeze(1) if flat else label,
        tuple(pair.case for pair in pairs),
    )


def stack_inside(crops: Sequence[Crop]) -> Tensor:
    """Where crops are not padding, [B, ...].

    Every element has memory of its own: pinning keeps the strides of a tensor, and torch refuses to
    write to an expanded one.
    """
    shape = (len(crops), *crops[0].shape[1:])
    if not any(crop.padded for crop in crops):
        return torch.ones(shape, dtype=torch.bool)
    inside = torch.empty(shape, dtype=torch.bool)
    for crop, marks in zip(crops, inside.numpy(), strict=True):
        crop.mark(marks)
    return inside


def _move(tensor: Tensor, device: torch.device) -> Tensor:
    # A GPU does what it is told in order, so nothing is computed before the copy has arrived.
    return tensor.to(device, non_blocking=device.type == "cuda")
