"""The running statistics of BatchNorm, and the passes that must leave them alone."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase


class _SplitBatchNorm(_BatchNorm):
    """BatchNorm that takes the statistics of labelled and of unlabelled crops separately.

    With statistics over both kinds, the supervised loss has a gradient at the unlabelled crops too,
    which it moves to wherever their statistics make the labelled ones easier to tell. In trainings
    with few labels, networks then marked most of every unlabelled scan as a structure before any
    unlabelled crop had counted (docs/explanation/recipe.md).
    """

    parts: tuple[int, int] = (0, 0)
    """Labelled and unlabelled crops of a batch. Maps of another number of crops are one part,
    e.g. where a method mixes crops (`bcp`) or passes them with others (`ict`, `unimatch`)."""

    def forward(self, maps: Tensor) -> Tensor:
        """Normalise maps [B, C, ...]; both parts count in the running statistics."""
        if not self.training or not all(self.parts) or len(maps) != sum(self.parts):
            whole: Tensor = super().forward(maps)
            return whole
        labelled, unlabelled = maps.split(self.parts)
        return torch.cat([super().forward(labelled), super().forward(unlabelled)])


class SplitBatchNorm2d(_SplitBatchNorm, nn.BatchNorm2d):
    """For maps [B, C, X, Y]."""


class SplitBatchNorm3d(_SplitBatchNorm, nn.BatchNorm3d):
    """For maps [B, C, X, Y, Z]."""


def split_statistics(module: nn.Module, labelled: int, unlabelled: int) -> None:
    """Tell the layers that can tell labelled from unlabelled crops how many a batch has of each."""
    for part in module.modules():
        if isinstance(part, _SplitBatchNorm):
            part.parts = (labelled, unlabelled)


def norms_by_batch(module: nn.Module) -> list[_BatchNorm]:
    """The layers that normalise by statistics of the whole batch while they are trained."""
    return [part for part in module.modules() if isinstance(part, _BatchNorm)]


def mixes_kinds(module: nn.Module) -> bool:
    """Whether what is made of a labelled crop depends on the unlabelled ones of its batch."""
    return any(
        not (isinstance(norm, _SplitBatchNorm) and all(norm.parts))
        for norm in norms_by_batch(module)
    )


@contextmanager
def frozen_statistics(module: nn.Module) -> Iterator[None]:
    """Passes in here leave BatchNorm's running statistics alone.

    So each crop counts once, although several passes of a step see it.
    """
    norms = norms_by_batch(module)
    tracked = [norm.track_running_stats for norm in norms]
    for norm in norms:
        norm.track_running_stats = False
    try:
        yield
    finally:
        for norm, state in zip(norms, tracked, strict=True):
            norm.track_running_stats = state


class RepeatedPass:
    """Made in a pass that will be made again; what is repeated in here counts no statistics.

    The repetition must save for its gradient what the first pass did. So it is given the running
    statistics wherever the first one was, but counts what it sees with a fraction of 0.
    """

    def __init__(self, module: nn.Module) -> None:
        self._norms = [part for part in module.modules() if isinstance(part, _NormBase)]
        self._first = [norm.track_running_stats for norm in self._norms]
        self._outside: list[tuple[bool, float | None, Tensor | None]] = []

    def __enter__(self) -> None:
        self._outside = [
            (norm.track_running_stats, norm.momentum, norm.num_batches_tracked)
            for norm in self._norms
        ]
        for norm, tracked in zip(self._norms, self._first, strict=True):
            norm.track_running_stats, norm.momentum = tracked, 0.0
            norm.num_batches_tracked = None

    def __exit__(self, *problem: object) -> None:
        for norm, (tracked, momentum, count) in zip(self._norms, self._outside, strict=True):
            norm.track_running_stats, norm.momentum = tracked, momentum
            norm.num_batches_tracked = count
