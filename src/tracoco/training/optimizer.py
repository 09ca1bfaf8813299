"""The optimizer of a run, and its learning rate at each step."""

import math
from typing import Any

import torch

from tracoco.config import OptimizerConfig
from tracoco.methods.method import Method


def build_optimizer(
    method: Method, config: OptimizerConfig, *, fused: bool = False
) -> torch.optim.Optimizer:
    """The main optimizer of a method; `fused` takes its step in one kernel, as GPUs can."""
    groups, decay = method.parameter_groups(), config.weight_decay
    shared: dict[str, Any] = {"lr": config.lr, "weight_decay": decay, "fused": fused or None}
    if config.name == "adamw":
        return torch.optim.AdamW(groups, betas=(config.momentum, 0.999), **shared)
    return torch.optim.SGD(groups, momentum=config.momentum, **shared)


def learning_rate(step: int, total_steps: int, config: OptimizerConfig) -> float:
    """Rate of a step counted from 0: a linear warm-up, then a fall to zero at the end of the run.

    poly: lr * (1 - t) ** poly_power; cosine: lr * (1 + cos(pi * t)) / 2, where t is the share of
    the steps after the warm-up that are done.
    """
    warmup = round(config.warmup * total_steps)
    if step < warmup:
        return config.lr * (step + 1) / warmup
    done = (step - warmup) / (total_steps - warmup)
    if config.schedule == "cosine":
        return config.lr * (1 + math.cos(math.pi * done)) / 2
    return float(config.lr * (1 - done) ** config.poly_power)
