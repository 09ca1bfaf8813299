"""What a training will take: one step is tried on small crops, and scaled to the real ones."""

import time
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from tracoco.config import Config
from tracoco.experiment.noise_batch import noise_batch
from tracoco.geometry import Index, Strides, total_stride
from tracoco.project.plan import Plan
from tracoco.training.build import resolved, run_crop, run_method

SMALL = 32
"""Voxels of an axis that is tried: each of our networks can halve it as often as it must."""
COPIES = 3
"""Numbers kept for each weight: itself, its gradient, its momentum."""
TRIES = 3


@dataclass(frozen=True, slots=True)
class StepCost:
    """Of one step with the crops of the plan, on one process of this machine's CPU."""

    seconds: float
    memory_bytes: int
    """Weights, and what the backward pass needs of the forward pass."""


def step_cost(config: Config, plan: Plan) -> StepCost:
    """Time and memory of a step; both grow with the voxels of a crop, so a small one tells."""
    config = resolved(config, plan)  # the network of the real crop, tried on a small one
    crop = run_crop(config, plan)[-plan.dimensions :]
    small = _small(crop, config.network.strides)
    data = config.data.model_copy(update={"crop": small})
    method = run_method(config.model_copy(update={"data": data}), plan)
    batch = noise_batch(config, plan, small)
    saved: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    seconds = []
    for _ in range(TRIES):  # the first one also pays for what torch prepares
        saved.clear()
        start = time.perf_counter()
        hooks = torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor)
        with hooks, torch.random.fork_rng(devices=[]):  # a caller's generator is not for our noise
            terms = method(batch, 1)
        torch.stack(list(terms.values())).sum().backward()
        seconds.append(time.perf_counter() - start)
    larger = prod(crop) / prod(small)
    weights = {parameter.data_ptr(): parameter.nbytes for parameter in method.parameters()}
    kept = sum(size for place, size in saved.items() if place not in weights)
    return StepCost(min(seconds) * larger, int(COPIES * sum(weights.values()) + kept * larger))


def _small(crop: Index, strides: Strides | None) -> Index:
    """A crop for the same network: where its strides go deep, longer than others are tried on."""
    steps = total_stride(strides) if strides else (1,) * len(crop)
    return tuple(min(n, max(SMALL, 2 * step)) for n, step in zip(crop, steps, strict=True))
