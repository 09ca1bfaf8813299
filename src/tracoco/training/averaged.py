"""Averaged weights: an exponential moving average (EMA) over the steps of a run.

They are steadier than the weights of any one step.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from tracoco.networks.statistics import norms_by_batch

WARMUP = 10
"""At step t the average keeps at most (1 + t) / (WARMUP + t), so that the first weights, which are
random, are soon forgotten."""


class AveragedWeights:
    """The average of a module's parameters, and of the running statistics of its BatchNorm."""

    def __init__(self, module: nn.Module, decay: float) -> None:
        """Start as a copy of the module's weights; `decay` is the share that each step keeps."""
        self._decay = decay
        self._current = dict(_averaged_tensors(module))
        self._average = {name: each.detach().clone() for name, each in self._current.items()}

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Take in the weights after `step`, counted from 0."""
        kept = min(self._decay, (1 + step) / (WARMUP + step))
        average, current = list(self._average.values()), list(self._current.values())
        torch._foreach_lerp_(average, current, 1 - kept)

    def state_dict(self) -> dict[str, Tensor]:
        """The averaged tensors under the names that they have in the module's own state."""
        return self._average

    @torch.no_grad()
    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Take over averaged tensors of the same module."""
        for name, average in self._average.items():
            average.copy_(state[name])

    @contextmanager
    def applied(self) -> Iterator[None]:
        """The module has the averaged weights in here, and its own again afterwards."""
        self._exchange()
        try:
            yield
        finally:
            self._exchange()

    def _exchange(self) -> None:
        for name, tensor in self._current.items():
            tensor.data, self._average[name] = self._average[name], tensor.data


def _averaged_tensors(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """What is averaged: what learns by gradient, and the statistics that go with it.

    Teachers are averages already. Other buffers, such as banks of features, are left alone.
    """
    teachers = {id(weight) for weight in module.parameters() if not weight.requires_grad}
    learning = [norm for norm in norms_by_batch(module) if id(norm.weight) not in teachers]
    statistics = {id(buffer) for norm in learning for buffer in norm.buffers()}
    for name, weight in module.named_parameters():
        if weight.requires_grad:
            yield name, weight
    for name, buffer in module.named_buffers():
        if id(buffer) in statistics and buffer.is_floating_point():
            yield name, buffer
