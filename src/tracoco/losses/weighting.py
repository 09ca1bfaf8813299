"""What several losses share: means over the voxels that count, log(1 - p), ramps of lambda."""

import math
from collections.abc import Callable

import torch
from torch import Tensor


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Mean of `values` where `mask` is true; 0, still connected, where it is true nowhere."""
    return (values * mask).sum() / mask.sum().clamp(min=1)


def log_complement(logits: Tensor) -> Tensor:
    """log(1 - p) of each class, from logits [B, C, ...].

    It is the log-sum-exp of the other classes less that of all. No clamp is needed, so there is a
    gradient also where a class is certain and wrong, which is where it matters most.
    """
    classes = range(logits.shape[1])
    others = [logits[:, [k for k in classes if k != c]].logsumexp(dim=1) for c in classes]
    return torch.stack(others, dim=1) - logits.logsumexp(dim=1, keepdim=True)


def cosine_rampup(step: int, length: int) -> float:
    """Rise from 0 at step 0 to 1 at step `length` along half a cosine; lambda in Eq. (1)."""
    return 0.5 * (1 - math.cos(math.pi * linear_rampup(step, length)))


def sigmoid_rampup(step: int, length: int) -> float:
    """Rise from exp(-5) to 1 along half a Gaussian, as most releases of this field do."""
    return math.exp(-5 * (1 - linear_rampup(step, length)) ** 2)


def linear_rampup(step: int, length: int) -> float:
    """Rise from 0 to 1 in a straight line."""
    return min(step, length) / length


RAMPS: dict[str, Callable[[int, int], float]] = {
    "cosine": cosine_rampup,
    "sigmoid": sigmoid_rampup,
    "linear": linear_rampup,
}
