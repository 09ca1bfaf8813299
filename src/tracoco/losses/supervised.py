"""What a network learns from labels: cross-entropy and Dice."""

import torch
import torch.nn.functional as F
from torch import Tensor

from tracoco.losses.weighting import masked_mean, zero_outside


def supervised_loss(logits: Tensor, label: Tensor, valid: Tensor | None = None) -> Tensor:
    """Cross-entropy plus Dice, the part of one network in Eq. (2).

    Args:
        logits: the network's output, [B, C, ...].
        label: class indices, [B, ...].
        valid: false where the crop is padding, [B, ...]; all voxels count if not given.
    """
    return cross_entropy(logits, label, valid) + dice_loss(logits, label, valid)


def cross_entropy(logits: Tensor, label: Tensor, valid: Tensor | None = None) -> Tensor:
    """Mean cross-entropy of the voxels inside the scan."""
    return masked_mean(F.cross_entropy(logits, label, reduction="none"), valid)


def dice_loss(logits: Tensor, label: Tensor, valid: Tensor | None = None) -> Tensor:
    """1 - Dice of each foreground class over all crops together, then the mean of the classes."""
    return class_dice_losses(logits, label, valid)[1:].mean()


def class_dice_losses(logits: Tensor, label: Tensor, valid: Tensor | None = None) -> Tensor:
    """1 - Dice of each class, background first, over all crops together.

    The denominators are squared sums, as in the linearised Dice loss that the paper cites.
    """
    smooth = 1e-5
    axes = [0, *range(2, logits.ndim)]
    one_hot = torch.zeros_like(logits).scatter(1, label.unsqueeze(1), 1.0)
    probability = zero_outside(logits.softmax(dim=1), valid)
    target = zero_outside(one_hot, valid)
    shared = (probability * target).sum(axes)
    total = (probability.square() + target).sum(axes)
    return 1 - (2 * shared + smooth) / (total + smooth)
