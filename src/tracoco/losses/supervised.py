"""What a network learns from labels: cross-entropy and Dice."""

import torch
import torch.nn.functional as F
from torch import Tensor

from tracoco.losses.weighting import masked_mean, zero_outside
from tracoco.settings import LossConfig

COMMON = LossConfig()
"""Cross-entropy and Dice of the foreground as in the paper, which every method has by default."""


def supervised_loss(
    logits: Tensor, label: Tensor, valid: Tensor | None = None, form: LossConfig = COMMON
) -> Tensor:
    """Cross-entropy plus Dice, the part of one network in Eq. (2).

    Args:
        logits: the network's output, [B, C, ...].
        label: class indices, [B, ...].
        valid: false where the crop is padding, [B, ...]; all voxels count if not given.
        form: weights of both terms, and the form of Dice; the paper's if not given.
    """
    entropy = cross_entropy(logits, label, valid) if form.cross_entropy else logits.new_zeros(())
    if not form.dice:
        return form.cross_entropy * entropy
    classes = class_dice_losses(
        logits,
        label,
        valid,
        linear=form.dice_linear,
        per_crop=form.dice_per_crop,
        smooth=form.dice_smooth,
    )
    dice = classes.mean() if form.dice_background else classes[1:].mean()
    return form.cross_entropy * entropy + form.dice * dice


def cross_entropy(logits: Tensor, label: Tensor, valid: Tensor | None = None) -> Tensor:
    """Mean cross-entropy of the voxels inside the scan."""
    return masked_mean(F.cross_entropy(logits, label, reduction="none"), valid)


def dice_loss(logits: Tensor, label: Tensor, valid: Tensor | None = None) -> Tensor:
    """1 - Dice of each foreground class over all crops together, then the mean of the classes."""
    return class_dice_losses(logits, label, valid)[1:].mean()


def class_dice_losses(
    logits: Tensor,
    label: Tensor,
    valid: Tensor | None = None,
    *,
    linear: bool = False,
    per_crop: bool = False,
    smooth: float = COMMON.dice_smooth,
) -> Tensor:
    """1 - Dice of each class, background first, over all crops together.

    Args:
        logits: the network's output, [B, C, ...].
        label: class indices, [B, ...].
        valid: false where the crop is padding, [B, ...]; all voxels count if not given.
        linear: denominators are sums of probabilities, and not of their squares as in the
            linearised Dice loss that the paper cites.
        per_crop: the mean of the losses of single crops.
        smooth: added to numerator and denominator.
    """
    axes = [*([] if per_crop else [0]), *range(2, logits.ndim)]
    one_hot = torch.zeros_like(logits).scatter(1, label.unsqueeze(1), 1.0)
    probability = zero_outside(logits.softmax(dim=1), valid)
    target = zero_outside(one_hot, valid)
    shared = (probability * target).sum(axes)
    total = ((probability if linear else probability.square()) + target).sum(axes)
    losses = 1 - (2 * shared + smooth) / (total + smooth)
    return losses.mean(dim=0) if per_crop else losses
