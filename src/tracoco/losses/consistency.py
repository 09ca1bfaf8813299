"""How far two predictions of the same voxels are apart, and how unsure a prediction is.

`mse_loss`, `kl_loss` and `ce_loss` are the rivals of CRC in the paper's ablation of losses: they
take the learner's logits and the peer's probabilities. `mutual_loss` is that of MC-Net, and the
distances by soft Dice, which take probabilities and sum over all crops together, are as the release
of SS-Net measures them. Maps are [B, C, ...]; `valid`, [B, ...], is false where a crop is padding,
and all voxels count without it. No gradient reaches the peer of the first three, nor the target of
these distances.
"""

import math
from collections.abc import Sequence
from itertools import permutations

import torch
import torch.nn.functional as F
from torch import Tensor

from tracoco.losses.supervised import cross_entropy
from tracoco.losses.weighting import masked_mean, most_likely, zero_outside

MC_NET_TEMPERATURE = 0.1
"""Of the targets of MC-Net, as its release has it."""


def mse_loss(logits: Tensor, peer: Tensor, valid: Tensor | None = None) -> Tensor:
    """Squared difference of the probabilities, mean over voxels and classes."""
    difference = logits.softmax(dim=1) - peer.detach()
    return masked_mean(difference.square().mean(dim=1), valid)


def kl_loss(logits: Tensor, peer: Tensor, valid: Tensor | None = None) -> Tensor:
    """KL(peer || learner): summed over classes, mean over voxels."""
    # It takes 0 log 0 for 0, so a peer that is certain of a class is no trouble.
    divergence = F.kl_div(logits.log_softmax(dim=1), peer.detach(), reduction="none")
    return masked_mean(divergence.sum(dim=1), valid)


def ce_loss(logits: Tensor, peer: Tensor, valid: Tensor | None = None) -> Tensor:
    """Cross-entropy with the peer's most likely class, however unsure it is; mean over voxels."""
    return cross_entropy(logits, most_likely(peer), valid)


def sharpened(logits: Tensor, temperature: float = MC_NET_TEMPERATURE) -> Tensor:
    """Probabilities to the power of 1 / temperature, divided by their sum; from [B, C, ...].

    The power of a softmax is the softmax of scaled logits, which no power can take out of range.
    For two classes it is the sharpening of each class by itself that MC-Net gives; with more, that
    one would push every class below 1/2 to 0.
    """
    return (logits / temperature).softmax(dim=1)


def mutual_loss(
    logits: Sequence[Tensor],
    valid: Tensor | None = None,
    *,
    temperature: float = MC_NET_TEMPERATURE,
    detached: bool = False,
) -> Tensor:
    """Squared distance of each decoder's probabilities to each other one's sharpened ones.

    A mean over voxels and classes, and a sum over the ordered pairs of decoders.

    Args:
        logits: what each decoder says of the same crops, [B, C, ...].
        valid: false where the crops are padding, [B, ...]; all voxels count if not given.
        temperature: of the targets; below 1 they are surer than the decoder is.
        detached: whether a target teaches the other decoder alone; if not, the gradient also runs
            through the sharpening, to the decoder that it comes from, as in the release of MC-Net.
    """
    probabilities = [each.softmax(dim=1) for each in logits]
    targets = [sharpened(each.detach() if detached else each, temperature) for each in logits]
    distances = [
        masked_mean((probabilities[own] - targets[other]).square().mean(dim=1), valid)
        for own, other in permutations(range(len(logits)), 2)
    ]
    return torch.stack(distances).sum()


def prediction_distance(probability: Tensor, target: Tensor, valid: Tensor | None = None) -> Tensor:
    """The distance that SS-Net's releases take: one for two classes, another for more."""
    measure = joint_distance if probability.shape[1] == 2 else class_distance
    return measure(probability, target, valid)


def joint_distance(probability: Tensor, target: Tensor, valid: Tensor | None = None) -> Tensor:
    """1 - 2 sum(p q) / (sum(p) + sum(q)), with all classes in each sum.

    Equal predictions are at distance 0 only if they are certain: it also asks for certainty.
    """
    smooth = 1e-8
    own, other = zero_outside(probability, valid), zero_outside(target.detach(), valid)
    return 1 - (2 * (own * other).sum() + smooth) / (own.sum() + other.sum() + smooth)


def class_distance(probability: Tensor, target: Tensor, valid: Tensor | None = None) -> Tensor:
    """1 - 2 sum(p q) / (sum(p^2) + sum(q^2)) of each class, then the mean of all classes.

    It is 0 for equal predictions, however unsure.
    """
    smooth = 1e-10
    axes = [0, *range(2, probability.ndim)]
    own, other = zero_outside(probability, valid), zero_outside(target.detach(), valid)
    total = (own.square() + other.square()).sum(axes)
    return (1 - (2 * (own * other).sum(axes) + smooth) / (total + smooth)).mean()


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


def weighted_mse(
    own: Tensor, target: Tensor, weight: Tensor, valid: Tensor | None = None
) -> Tensor:
    """Squared difference of two maps, mean over channels and voxels, each voxel by its weight.

    The mean is over all voxels, so that small weights everywhere make a small loss.

    Args:
        own: what learns, [B, C, ...].
        target: what it learns from; no gradient reaches it.
        weight: of each voxel, [B, ...]; no gradient reaches it either.
        valid: false where the crops are padding, [B, ...]; all voxels count if not given.
    """
    squared = (own - target.detach()).square().mean(dim=1)
    return masked_mean(weight.detach() * squared, valid)
