"""Two decoders that agree by hard labels where both are sure, and by soft ones elsewhere (DCNet).

Logits are those of the two decoders for the same crops, [B, C, ...]; `inside`, [B, ...], is false
where a crop is padding. `sure`, [B, C, ...], is true for classes that both decoders are sure of.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from tracoco.losses.mutual import sharpened
from tracoco.losses.weighting import masked_mean, most_likely


def least_confidence(logits: Sequence[Tensor], inside: Tensor) -> Tensor:
    """Mean of the largest class probability, of the decoder that is less sure on the whole."""
    means = [masked_mean(each.softmax(dim=1).amax(dim=1), inside) for each in logits]
    return torch.stack(means).amin()


def sure_classes(logits: Sequence[Tensor], threshold: Tensor) -> Tensor:
    """Classes that every decoder gives more than the threshold, [B, C, ...]."""
    return torch.stack([each.softmax(dim=1) > threshold for each in logits]).all(dim=0)


def follow_loss(
    logits: tuple[Tensor, Tensor], sure: Tensor, inside: Tensor, *, temperature: float
) -> Tensor:
    """Where they are not sure, the smaller probability of a class follows the larger one.

    Squared distance of the sharpened probabilities, a mean over all voxels and classes. No
    gradient reaches the larger one.
    """
    first, second = (each.detach().softmax(dim=1) for each in logits)
    sharp_first, sharp_second = (sharpened(each, temperature) for each in logits)
    leads, trails = (first > second) & ~sure, (second > first) & ~sure
    pulled = leads * (sharp_first.detach() - sharp_second).square()
    pulled = pulled + trails * (sharp_second.detach() - sharp_first).square()
    return masked_mean(pulled.mean(dim=1), inside)


def cross_label_loss(
    logits: tuple[Tensor, Tensor], sure: Tensor, inside: Tensor, *, everywhere: Tensor
) -> Tensor:
    """Where they are sure, each learns the other's label; a sum over voxels, divided by all.

    A label is the likeliest of the classes that both are sure of. With `everywhere` true it is the
    likeliest of all classes, and all voxels count.
    """
    allowed = sure | everywhere
    counted = allowed.any(dim=1)
    labels = [most_likely(each.detach().softmax(dim=1) * allowed) for each in logits]
    losses = [
        masked_mean(counted * F.cross_entropy(own, label, reduction="none"), inside)
        for own, label in zip(logits, reversed(labels), strict=True)
    ]
    return torch.stack(losses).sum()


def attention_loss(learner: Tensor, guide: Tensor, inside: Tensor) -> Tensor:
    """Squared distance of where two maps [B, C, ...] of one size are strong, a mean over voxels.

    No gradient reaches the guide. `inside` is of the crops, whatever the size of the maps.
    """
    mask = F.interpolate(inside.unsqueeze(1).float(), learner.shape[2:])
    distance = _attention(learner, mask) - _attention(guide.detach(), mask)
    return masked_mean(distance.square(), mask.flatten(1))


def _attention(maps: Tensor, mask: Tensor) -> Tensor:
    """Mean square over channels, of length 1 in each crop: [B, voxels]."""
    strength = maps.float().square().mean(dim=1, keepdim=True) * mask
    return F.normalize(strength.flatten(1), dim=1)
