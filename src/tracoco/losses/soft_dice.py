"""How far two soft answers to the same crops are apart, by the Dice of their probabilities."""

from torch import Tensor


def soft_dice_loss(first: Tensor, second: Tensor, inside: Tensor) -> Tensor:
    """1 - Dice of each foreground class over all crops together, then the mean of the classes.

    The denominators are squared sums, so that it is 0 where both answers are the same, however
    unsure. It is the same the other way round, and its gradient reaches both.

    Args:
        first: probabilities, [B, C, ...].
        second: others of the same voxels.
        inside: false where the crops are padding, [B, ...].
    """
    smooth = 1e-5
    axes = [0, *range(2, first.ndim)]
    weight = inside.unsqueeze(1)
    first, second = first[:, 1:] * weight, second[:, 1:] * weight
    shared = (first * second).sum(axes)
    total = (first.square() + second.square()).sum(axes)
    return (1 - (2 * shared + smooth) / (total + smooth)).mean()
