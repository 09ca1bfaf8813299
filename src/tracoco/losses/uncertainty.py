"""How unsure an answer is, as a share of the most that it can be, and a loss that goes by it."""

import math

import torch
from torch import Tensor

from tracoco.losses.weighting import masked_mean


def self_information(probability: Tensor) -> Tensor:
    """-p log p of each class [B, C, ...], divided by the entropy of C equally likely classes.

    The clamp is inside the logarithm alone. So a class that is ruled out has 0 and not NaN, and
    its gradient is finite, which softmax then takes to 0.
    """
    smallest = torch.finfo(probability.dtype).tiny
    largest = math.log(max(2, probability.shape[1]))  # a class alone leaves no doubt: 0, not 0 / 0
    return -probability * probability.clamp(min=smallest).log() / largest


def normalised_entropy(probability: Tensor) -> Tensor:
    """Entropy of each voxel, [B, ...]: 0 where one class is certain, 1 where all are alike."""
    return self_information(probability).sum(dim=1)


def weighted_mse(own: Tensor, target: Tensor, weight: Tensor, inside: Tensor) -> Tensor:
    """Squared difference of two maps, mean over channels and voxels, each voxel by its weight.

    The mean is over all voxels, so that small weights everywhere make a small loss.

    Args:
        own: what learns, [B, C, ...].
        target: what it learns from; no gradient reaches it.
        weight: of each voxel, [B, ...]; no gradient reaches it either.
        inside: false where the crops are padding, [B, ...].
    """
    squared = (own - target.detach()).square().mean(dim=1)
    return masked_mean(weight.detach() * squared, inside)
