"""Consistency between the levels of a decoder, rectified by their uncertainty (URPC)."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from tracoco.losses.weighting import masked_mean


def pyramid_loss(logits: Sequence[Tensor], inside: Tensor) -> Tensor:
    """How far the levels are from their mean, less where a level is unsure; a mean over levels.

    A level's uncertainty is the Kullback-Leibler divergence of the mean from it. Squared distances
    are weighted by its negative exponential, and it is itself minimised. The gradient reaches
    each level directly and through the mean.

    Args:
        logits: what each level says of the same crops, resized to them, [B, C, ...].
        inside: false where the crops are padding, [B, ...].
    """
    logs = [each.log_softmax(dim=1) for each in logits]
    # Of logarithms throughout: a class that all levels rule out has none that is finite otherwise.
    log_mean = torch.stack(logs).logsumexp(dim=0) - math.log(len(logs))
    return torch.stack([_rectified(own, log_mean, inside) for own in logs]).mean()


def _rectified(log_probability: Tensor, log_mean: Tensor, inside: Tensor) -> Tensor:
    mean = log_mean.exp()
    uncertainty = (mean * (log_mean - log_probability)).sum(dim=1)
    trust = torch.exp(-uncertainty)
    distance = (mean - log_probability.exp()).square().mean(dim=1)
    rectified = masked_mean(distance * trust, inside) / (masked_mean(trust, inside) + 1e-8)
    return rectified + masked_mean(uncertainty, inside)
