"""How long a training will take: one step is tried on small crops, and scaled to the real ones."""

import time
from math import prod

import torch

from tracoco.config import Config
from tracoco.experiment.noise_batch import noise_batch
from tracoco.geometry import Index, Strides, total_stride
from tracoco.project.plan import Plan
from tracoco.training.arrangement import arrange
from tracoco.training.build import resolved, run_crop, run_method
from tracoco.training.team import choose_device

SMALL = 32
"""Voxels of an axis that is tried: each of our networks can halve it as often as it must."""
TRIES = 3


def step_seconds(config: Config, plan: Plan, device: str = "auto") -> float:
    """Of one process on this machine, in the precision that a run would have.

    On a CPU time grows with the voxels, so a small crop tells. A GPU is not busy with a small one.
    """
    config = resolved(config, plan)  # the network of the real crop, tried on a small one
    crop, where = run_crop(config, plan)[-plan.dimensions :], choose_device(device)
    small = _small(crop, config.network.strides) if where.type == "cpu" else crop
    data = config.data.model_copy(update={"crop": small})
    batch = noise_batch(config, plan, small).to(where)
    method = run_method(config.model_copy(update={"data": data}), plan)
    dtype = arrange(method, config.training, where, batch.first.values.shape).dtype
    method.to(where)
    seconds = []
    for _ in range(TRIES):  # the first one also pays for what torch prepares
        start = time.perf_counter()
        with (
            # A caller's generator is not for our noise.
            torch.random.fork_rng(devices=[where] if where.type == "cuda" else []),
            torch.autocast(where.type, dtype=dtype, enabled=dtype is not None),
        ):
            terms = method(batch, 1)
        torch.stack(list(terms.values())).sum().backward()
        if where.type == "cuda":
            torch.cuda.synchronize(where)
        seconds.append(time.perf_counter() - start)
    return min(seconds) * prod(crop) / prod(small)


def _small(crop: Index, strides: Strides | None) -> Index:
    """A crop for the same network: where its strides go deep, longer than others are tried on."""
    steps = total_stride(strides) if strides else (1,) * len(crop)
    return tuple(min(n, max(SMALL, 2 * step)) for n, step in zip(crop, steps, strict=True))
