"""What several losses share: means over voxels that count, labels, log(1 - p), ramps of lambda."""

import math
from collections.abc import Callable

import torch
from torch import Tensor


def masked_mean(values: Tensor, mask: Tensor | None = None) -> Tensor:
    """Mean of `values` where `mask` is true; 0, still connected, where it is true nowhere.

    Without a mask it is the mean of all values.
    """
    if mask is None:
        return values.sum() / max(1, values.numel())
    return (values * mask).sum() / mask.sum().clamp(min=1)


def zero_outside(maps: Tensor, valid: Tensor | None) -> Tensor:
    """Maps [B, C, ...] that are 0 where `valid`, [B, ...], is false; unchanged without `valid`."""
    return maps if valid is None else maps * valid.unsqueeze(1)


def most_likely(scores: Tensor) -> Tensor:
    """Index of the largest of the classes [B, C, ...], the first of equal ones: [B, ...].

    The same as `argmax`, which takes torch several times as long on a CPU.
    """
    return scores.max(dim=1).indices


def log_complement(logits: Tensor) -> Tensor:
    """log(1 - p) of each class, from logits [B, C, ...].

    Of the most likely class it is the log-sum-exp of the others; p is at most 1/2 for those, so
    that 1 - p loses no digits. No clamp is needed: there is a gradient also where a class is
    certain and wrong, which is where it matters most.
    """
    log_probability = logits.log_softmax(dim=1)
    if logits.shape[1] == 2:  # what one class lacks is what the other has
        return log_probability.flip(1)
    first = most_likely(logits).unsqueeze(1)
    others = log_probability.scatter(1, first, -math.inf)
    return torch.log1p(-others.exp()).scatter(1, first, others.logsumexp(dim=1, keepdim=True))


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
