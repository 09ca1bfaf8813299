"""How far an answer is from another one by soft Dice, as the releases of SS-Net measure it.

Both functions take probabilities [B, C, ...] of the same voxels, and `inside`, [B, ...], which is
false where a crop is padding; sums run over all crops together. No gradient reaches the target.
"""

from torch import Tensor


def answer_distance(probability: Tensor, target: Tensor, inside: Tensor) -> Tensor:
    """The distance that SS-Net's releases take: one for two classes, another for more."""
    measure = joint_distance if probability.shape[1] == 2 else class_distance
    return measure(probability, target, inside)


def joint_distance(probability: Tensor, target: Tensor, inside: Tensor) -> Tensor:
    """1 - 2 sum(p q) / (sum(p) + sum(q)), with all classes in each sum.

    Equal answers are at distance 0 only if they are certain, so that it also asks for certainty.
    """
    smooth = 1e-8
    weight = inside.unsqueeze(1)
    own, other = probability * weight, target.detach() * weight
    return 1 - (2 * (own * other).sum() + smooth) / (own.sum() + other.sum() + smooth)


def class_distance(probability: Tensor, target: Tensor, inside: Tensor) -> Tensor:
    """1 - 2 sum(p q) / (sum(p^2) + sum(q^2)) of each class, then the mean of all classes.

    It is 0 for equal answers, however unsure.
    """
    smooth = 1e-10
    axes = [0, *range(2, probability.ndim)]
    weight = inside.unsqueeze(1)
    own, other = probability * weight, target.detach() * weight
    total = (own.square() + other.square()).sum(axes)
    return (1 - (2 * (own * other).sum(axes) + smooth) / (total + smooth)).mean()
