"""Optimizer, learning rate, averaged weights, and steps that overflow in fp16.

Averaged weights are an exponential moving average (EMA) over the steps of a run. They are steadier
than the weights of any one step.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from tracoco.config import OptimizerConfig
from tracoco.errors import UserError
from tracoco.methods.method import Method
from tracoco.networks.statistics import norms_by_batch


def build_optimizer(
    method: Method, config: OptimizerConfig, *, fused: bool = False
) -> torch.optim.Optimizer:
    """The main optimizer of a method; `fused` takes its step in one kernel, as GPUs can."""
    groups, decay = method.parameter_groups(), config.weight_decay
    shared: dict[str, Any] = {"lr": config.lr, "weight_decay": decay, "fused": fused or None}
    if config.name == "sgd":
        return torch.optim.SGD(groups, momentum=config.momentum, nesterov=config.nesterov, **shared)
    adam = torch.optim.AdamW if config.name == "adamw" else torch.optim.Adam
    return adam(groups, betas=(config.momentum, config.second_beta), **shared)


def learning_rate(
    step: int, total_steps: int, config: OptimizerConfig, first_stage: int = 0
) -> float:
    """Rate of a step counted from 0: a linear warm-up, then the schedule.

    With t the fraction of the steps after the warm-up that are done, and n their number:

        poly      lr * (1 - t) ** poly_power
        cosine    lr * (1 + cos(pi * t)) / 2
        step      lr * drop_factor ** (n // drop_every)
        constant  lr

    Args:
        step: the step that is about to be taken.
        total_steps: length of the run.
        config: the schedule.
        first_stage: steps of the method's first stage, if it has two; with `restart` each stage
            has a schedule of its own.
    """
    if config.restart:
        start, stop = (0, first_stage) if step < first_stage else (first_stage, total_steps)
        step, total_steps = step - start, stop - start
    warmup = round(config.warmup * total_steps)
    if step < warmup:
        return config.lr * (step + 1) / warmup
    return config.lr * _decay(step - warmup, total_steps - warmup, config)


def _decay(step: int, steps: int, config: OptimizerConfig) -> float:
    """What is left of the learning rate at a step after the warm-up."""
    match config.schedule:
        case "poly":
            return float((1 - step / steps) ** config.poly_power)
        case "cosine":
            return (1 + math.cos(math.pi * step / steps)) / 2
        case "step":
            return float(config.drop_factor ** (step // config.drop_every))
        case "constant":
            return 1.0


WARMUP = 10
"""At step t the average keeps at most (1 + t) / (WARMUP + t), so that the first weights, which are
random, are soon forgotten."""


class AveragedWeights:
    """The average of a module's parameters, and of the running statistics of its BatchNorm."""

    def __init__(self, module: nn.Module, decay: float) -> None:
        """Start as a copy of the module's weights; `decay` is the fraction that each step keeps."""
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


WINDOW, MOST_SKIPPED = 200, 20
"""A run ends when this many of its last steps were skipped."""
SMALLEST_SCALE = 2.0**-10
"""Of the loss. Gradients that overflow even then are wrong for another reason."""


class OverflowGuard:
    """Keeps what a pass may change besides weights, so that a skipped step leaves no trace.

    An infinite activation would otherwise stay in the running statistics of BatchNorm, or in a bank
    of features, for good.
    """

    def __init__(self, method: nn.Module, scaler: torch.amp.GradScaler) -> None:
        self._method, self._scaler = method, scaler
        self._buffers: list[Tensor] = []
        self._extra: list[tuple[nn.Module, Any]] = []
        self.skipped: list[int] = []
        """Steps that were skipped lately; part of a checkpoint."""

    def remember(self) -> None:
        """Copy statistics, banks and thresholds before a pass; in fp16 alone."""
        if self._scaler.is_enabled():
            self._buffers = [buffer.clone() for buffer in self._method.buffers()]
            self._extra = [
                (part, part.get_extra_state())
                for part in self._method.modules()
                if type(part).get_extra_state is not nn.Module.get_extra_state
            ]

    @torch.no_grad()
    def undo(self, step: int, cases: Sequence[str]) -> None:
        """Put back what was copied, and end the run if such steps are too many."""
        for buffer, before in zip(self._method.buffers(), self._buffers, strict=True):
            buffer.copy_(before)
        for part, state in self._extra:
            part.set_extra_state(state)
        self.skipped = [*(old for old in self.skipped if old > step - WINDOW), step]
        if len(self.skipped) >= MOST_SKIPPED or self._scaler.get_scale() < SMALLEST_SCALE:
            raise UserError(
                f"step {step}: {len(self.skipped)} of the last {WINDOW} steps overflowed in fp16 "
                f"and were skipped, this one on cases {', '.join(cases)}; look at these scans, use "
                "training.precision=bf16 or fp32, or lower optimizer.lr"
            )
