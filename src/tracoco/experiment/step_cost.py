"""How long a training will take: one step is tried on small crops, and scaled to the real ones."""

import time
from math import prod

import torch

from tracoco.config import Config
from tracoco.experiment.noise_batch import noise_batch
from tracoco.geometry import Index, Strides, total_stride
from tracoco.project.plan import Plan
from tracoco.training.build import resolved, run_crop, run_method

SMALL = 32
"""Voxels of an axis that is tried: each of our networks can halve it as often as it must."""
TRIES = 3


def step_seconds(config: Config, plan: Plan) -> float:
    """Of one process on this machine's CPU: time grows with the voxels, so a small crop tells."""
    config = resolved(config, plan)  # the network of the real crop, tried on a small one
    crop = run_crop(config, plan)[-plan.dimensions :]
    small = _small(crop, config.network.strides)
    data = config.data.model_copy(update={"crop": small})
    method = run_method(config.model_copy(update={"data": data}), plan)
    batch = noise_batch(config, plan, small)
    seconds = []
    for _ in range(TRIES):  # the first one also pays for what torch prepares
        start = time.perf_counter()
        with torch.random.fork_rng(devices=[]):  # a caller's generator is not for our noise
            terms = method(batch, 1)
        torch.stack(list(terms.values())).sum().backward()
        seconds.append(time.perf_counter() - start)
    return min(seconds) * prod(crop) / prod(small)


def _small(crop: Index, strides: Strides | None) -> Index:
    """A crop for the same network: where its strides go deep, longer than others are tried on."""
    steps = total_stride(strides) if strides else (1,) * len(crop)
    return tuple(min(n, max(SMALL, 2 * step)) for n, step in zip(crop, steps, strict=True))
