"""Cross-entropy with the labels that a teacher is sure of (PS-MT)."""

import torch.nn.functional as F
from torch import Tensor

from tracoco.losses.weighting import masked_mean


def confident_ce_loss(logits: Tensor, peer: Tensor, inside: Tensor, *, likely: float) -> Tensor:
    """Cross-entropy with the peer's label times its confidence, mean over the sure voxels alone.

    Args:
        logits: the learning network's output, [B, C, ...].
        peer: the teacher's probabilities of the same voxels; no gradient reaches them.
        inside: false where the crop is padding, [B, ...].
        likely: a voxel teaches where the peer's largest probability is at least this.
    """
    confidence, label = peer.detach().max(dim=1)
    loss = confidence * F.cross_entropy(logits, label, reduction="none")
    return masked_mean(loss, inside & (confidence >= likely))
