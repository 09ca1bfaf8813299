"""Batches: labelled crop pairs, then unlabelled ones, each batch a pure function of its step."""

from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np
import torch
from numpy.random import Philox, SeedSequence
from numpy.typing import NDArray
from torch import Tensor

from tracoco.data.batch import Batch, Crops
from tracoco.data.crop import Crop
from tracoco.data.crop_pair import CropPair, CropRule, draw_crop_pair
from tracoco.data.pseudo_label_files import PseudoLabels
from tracoco.project.preprocess import is_drawn
from tracoco.project.store import Store


class Stream(IntEnum):
    """What a draw is for; each stream has random numbers of its own."""

    LABELLED = 0
    UNLABELLED = 1


class Purpose(IntEnum):
    """Which decision of a stream a draw makes."""

    ORDER = 0
    REST = 1
    CROP = 2


def generator(seed: int, stream: Stream, purpose: Purpose, *counters: int) -> np.random.Generator:
    """A generator for one decision: the same key always gives the same numbers."""
    return np.random.Generator(Philox(SeedSequence([seed, stream, purpose, *counters])))


def cases_at(step: int, count: int, batch: int, *, seed: int, stream: Stream) -> list[int]:
    """Which of `count` cases the batch of a step holds, over all processes.

    The cases pass in laps. A lap is a fresh order of all cases but the few that would not fill a
    batch; those rest, in turns, so that no case is twice in a batch and over many laps every case
    comes equally often.
    """
    if count < batch:
        order = generator(seed, stream, Purpose.ORDER, step).permutation(count)
        return [int(order[i % count]) for i in range(batch)]
    lap, place = divmod(step, count // batch)
    resting_count = count % batch
    turns = generator(seed, stream, Purpose.REST).permutation(count)
    resting = np.take(turns, np.arange(resting_count) + lap * resting_count, mode="wrap")
    order = generator(seed, stream, Purpose.ORDER, lap).permutation(
        np.setdiff1d(np.arange(count), resting)
    )
    return [int(case) for case in order[place * batch : (place + 1) * batch]]


@dataclass(frozen=True, slots=True)
class Shard:
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
    shard: Shard = Shard()
    pseudo_labels: PseudoLabels | None = None
    """Of all unlabelled cases, where the method learns from them."""

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
        whole_batch = batch * self.shard.world_size
        chosen = cases_at(step, len(units), whole_batch, seed=self.seed, stream=stream)
        for slot in range(self.shard.rank * batch, (self.shard.rank + 1) * batch):
            random = generator(self.seed, stream, Purpose.CROP, step, slot)
            id_, slice_ = units[chosen[slot]]
            labelled, case = stream is Stream.LABELLED, self.store.case(id_)
            pseudo = self.pseudo_labels.label(case) if self.pseudo_labels and not labelled else None
            yield draw_crop_pair(
                case, self.rule, random, labelled=labelled, slice_=slice_, pseudo_label=pseudo
            )

    @cached_property
    def _units(self) -> dict[Stream, list[tuple[str, int | None]]]:
        """What is drawn equally often: the cases, or every slice of them."""
        streams = {Stream.LABELLED: self.labelled, Stream.UNLABELLED: self.unlabelled}
        if self.rule.config.slice_sampling == "by_case":
            return {stream: [(id_, None) for id_ in ids] for stream, ids in streams.items()}
        return {
            stream: [(id_, slice_) for id_ in ids for slice_ in self._slices(stream, id_)]
            for stream, ids in streams.items()
        }

    def _slices(self, stream: Stream, id_: str) -> Sequence[int]:
        """The slices of a case; of a label those alone that have a drawn voxel."""
        case = self.store.case(id_)
        if stream is Stream.LABELLED and case.undrawn:
            drawn = (is_drawn(slice_).any() for slice_ in case.label())
            return [index for index, any_ in enumerate(drawn) if any_]
        return range(case.shape[0])


def collate(pairs: Sequence[CropPair]) -> Batch:
    """Read and stack crop pairs; a slice axis of length one, as 2D projects have, goes away."""
    flat = pairs[0].first.shape[1] == 1
    labels = [pair.label for pair in pairs if pair.label is not None]
    pseudo_labels = [pair.pseudo_label for pair in pairs if pair.pseudo_label is not None]

    def stack(crops: Sequence[Crop]) -> Crops:
        values = torch.empty(len(crops), *crops[0].shape)
        for crop, voxels in zip(crops, values.numpy(), strict=True):
            crop.read(voxels)
        valid = stack_inside(crops)
        start = tuple(crop.start for crop in crops)
        if flat:
            return Crops(values.squeeze(2), valid.squeeze(1), tuple(s[1:] for s in start))
        return Crops(values, valid, start)

    def stack_labels(arrays: Sequence[NDArray[np.uint8]]) -> Tensor:
        label = torch.from_numpy(np.stack(arrays))
        return label.squeeze(1) if flat else label

    def stack_drawn(arrays: Sequence[NDArray[np.uint8]]) -> Tensor:
        """What is not drawn becomes background, which is not valid and so counts nowhere."""
        return stack_labels([np.where(is_drawn(label), label, 0) for label in arrays])

    return Batch(
        stack([pair.first for pair in pairs]),
        stack([pair.second for pair in pairs]),
        stack_drawn(labels),
        tuple(pair.case for pair in pairs),
        stack_labels(pseudo_labels) if pseudo_labels else None,
    )


def stack_inside(crops: Sequence[Crop]) -> Tensor:
    """Where crops are not padding, [B, ...].

    Every element has memory of its own: pinning keeps the strides of a tensor, and torch refuses to
    write to an expanded one.
    """
    shape = (len(crops), *crops[0].shape[1:])
    if not any(crop.padded for crop in crops):
        return torch.ones(shape, dtype=torch.bool)
    valid = torch.empty(shape, dtype=torch.bool)
    for crop, marks in zip(crops, valid.numpy(), strict=True):
        crop.mark(marks)
    return valid


AHEAD = 2
"""Batches that each thread may be ahead of the training."""


def batches(
    source: BatchSource, start: int, stop: int, workers: int, *, pinned: bool = False
) -> Generator[Batch, None, None]:
    """The batches of steps `start` to `stop` in their order, read ahead by `workers` threads.

    Threads and not processes: numpy lets go of Python's lock while it reads, and what a process
    has read would have to be copied, through shared memory that containers have little of. Pinned
    batches are copied to a GPU while it computes; without a GPU they are of no use.
    """

    def read(step: int) -> Batch:
        return source[step].pin_memory() if pinned else source[step]

    if not workers:
        yield from map(read, range(start, stop))
        return
    pool, ahead = ThreadPoolExecutor(workers, "tracoco-reader"), deque[Future[Batch]]()
    try:
        for step in range(start, stop):
            ahead.append(pool.submit(read, step))
            if len(ahead) > AHEAD * workers:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
