"""What a training step takes at its peak, counted without computing it."""

from dataclasses import dataclass

import torch
from torch import nn
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)

from tracoco.config import Config
from tracoco.data.batches import Batch
from tracoco.experiment.noise_batch import noise_batch
from tracoco.methods.method import Method
from tracoco.networks.activation_memory import PeakMemory
from tracoco.project.plan import Plan
from tracoco.training.arrangement import checkpoint_levels
from tracoco.training.build import resolved, run_crop, run_method
from tracoco.training.precision import PRECISIONS

UNCOUNTABLE = (
    *(DataDependentOutputException, DynamicOutputShapeException),
    *(UnsupportedFakeTensorException, UnsupportedOperatorException),
)
"""What torch raises where a computation goes by values, which the tensors do not have."""
LEAVES_TORCH = ("tensor subclasses", "FakeTensor")
"""In what it says of a value that is asked for by numpy or Python: that has no class of its own."""
LATE = 10**9
"""A step behind all ramps and first stages: what starts late is counted too."""


@dataclass(frozen=True, slots=True)
class StepMemory:
    """Bytes at the peak of a step of one process."""

    kept: int
    """With all maps kept for the backward pass."""
    checkpointed: int
    """With `training.checkpointing`."""


def step_memory(config: Config, plan: Plan) -> StepMemory | None:
    """Weights, averages, moments of the optimizer, and the most that a step has alive at once.

    In that: the batch, all maps that autograd keeps, gradients, what losses and a convolution need
    for the moment. Not in that: torch itself, and what its allocator holds in reserve. None where
    a method leaves torch for its loss, so that nothing can be counted.
    """
    kept = step_bytes(config, plan)
    checkpointed = step_bytes(config, plan, checkpointing=True)
    return None if kept is None or checkpointed is None else StepMemory(kept, checkpointed)


def step_bytes(config: Config, plan: Plan, *, checkpointing: bool = False) -> int | None:
    """The same with or without `training.checkpointing` alone."""
    try:
        return _peak(resolved(config, plan), plan, checkpointing=checkpointing)
    except UNCOUNTABLE:
        return None
    except RuntimeError as error:
        if not any(words in str(error) for words in LEAVES_TORCH):
            raise
        return None


def _peak(config: Config, plan: Plan, *, checkpointing: bool) -> int:
    method = run_method(config, plan)
    if checkpointing:
        for network in method.trained_networks():
            checkpoint_levels(network)
    crop = run_crop(config, plan)[-plan.dimensions :]
    memory = PeakMemory()
    shell = memory.without_values(method).train()
    with memory, torch.random.fork_rng(devices=[]):
        batch = memory.make(noise_batch, config, plan, crop)
        for tensor in _tensors(batch):
            memory.count(tensor)
        # `auto` counts as fp32, which takes more.
        _step(shell, batch, PRECISIONS.get(config.training.precision))
        peak = memory.peak_bytes
    return peak + _bytes(method) + _copies(config) * _trained_bytes(method)


def _copies(config: Config) -> int:
    """Numbers that the optimizer and the average keep for each weight that learns."""
    moments = 2 if config.optimizer.name == "adamw" else int(config.optimizer.momentum > 0)
    return moments + int(config.training.ema_decay > 0)


def _step(method: Method, batch: Batch, dtype: torch.dtype | None) -> None:
    with torch.autocast("cpu", dtype=dtype, enabled=dtype is not None):
        terms = method(batch, LATE)
    torch.stack(list(terms.values())).sum().backward()


def _tensors(batch: Batch) -> list[torch.Tensor]:
    crops = (batch.first, batch.second)
    return [batch.labels, *(part for each in crops for part in (each.values, each.inside))]


def _bytes(module: nn.Module) -> int:
    return sum(tensor.nbytes for tensor in (*module.parameters(), *module.buffers()))


def _trained_bytes(method: Method) -> int:
    return sum(weight.nbytes for group in method.parameter_groups() for weight in group["params"])
