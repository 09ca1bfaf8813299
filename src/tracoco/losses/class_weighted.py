"""Losses in which each class has a weight: what DHC learns with."""

import torch
import torch.nn.functional as F
from torch import Tensor

from tracoco.losses.supervised import class_dice_losses


def weighted_cross_entropy(
    logits: Tensor, label: Tensor, inside: Tensor, weights: Tensor
) -> Tensor:
    """Mean cross-entropy of the voxels inside, each by the weight of its class.

    The sum is divided by the weights of the voxels, and not by their number. Where no voxel has a
    weight it is 0, where torch's own would be NaN.

    Args:
        logits: the network's output, [B, C, ...].
        label: class indices, [B, ...].
        inside: false where the crops are padding, [B, ...].
        weights: of the classes, [C].
    """
    weight = weights[label] * inside
    loss = F.cross_entropy(logits, label, reduction="none")
    return (loss * weight).sum() / weight.sum().clamp(min=torch.finfo(weight.dtype).tiny)


def weighted_dice_loss(logits: Tensor, label: Tensor, inside: Tensor, weights: Tensor) -> Tensor:
    """1 - Dice of each foreground class, times its weight, then the mean of the classes."""
    return (weights * class_dice_losses(logits, label, inside))[1:].mean()
