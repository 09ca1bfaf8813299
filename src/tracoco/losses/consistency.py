"""How far a learner is from its peer: the rivals of CRC in the paper's ablation of losses.

All functions take the learner's logits and the peer's probabilities of the same voxels, both
[B, C, ...], and `inside`, [B, ...], which is false where a crop is padding. No gradient reaches
the peer.
"""

import torch.nn.functional as F
from torch import Tensor

from tracoco.losses.supervised import cross_entropy
from tracoco.losses.weighting import masked_mean, most_likely


def mse_loss(logits: Tensor, peer: Tensor, inside: Tensor) -> Tensor:
    """Squared difference of the probabilities, mean over voxels and classes."""
    difference = logits.softmax(dim=1) - peer.detach()
    return masked_mean(difference.square().mean(dim=1), inside)


def kl_loss(logits: Tensor, peer: Tensor, inside: Tensor) -> Tensor:
    """KL(peer || learner): summed over classes, mean over voxels."""
    # It takes 0 log 0 for 0, so a peer that is certain of a class is no trouble.
    divergence = F.kl_div(logits.log_softmax(dim=1), peer.detach(), reduction="none")
    return masked_mean(divergence.sum(dim=1), inside)


def ce_loss(logits: Tensor, peer: Tensor, inside: Tensor) -> Tensor:
    """Cross-entropy with the peer's most likely class, however unsure it is; mean over voxels."""
    return cross_entropy(logits, most_likely(peer), inside)
