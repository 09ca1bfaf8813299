"""Confident regional cross-entropy (CRC): what one network learns from its peer."""

from collections.abc import Callable
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from tracoco.losses.weighting import log_complement, masked_mean, most_likely

PeerLoss = Callable[[Tensor, Tensor, Tensor | None], Tensor]
"""From logits, the peer's probabilities and `valid` to one number."""

NegativeGate = Literal["class", "minimum"]
"""Which classes are unlearnt where there are more than two; see `TraCoCoConfig`."""

GAMMA, BETA = 0.65, 0.1
"""The thresholds of Eq. (8) that the paper's ablation of both finds best, and that its table of
gradients assumes."""


def crc_loss(
    logits: Tensor,
    peer: Tensor,
    valid: Tensor | None = None,
    *,
    gamma: float = GAMMA,
    beta: float = BETA,
    negative_gate: NegativeGate = "class",
) -> Tensor:
    """Learn what the peer is sure of, unlearn what it rules out, Eq. (7).

    Args:
        logits: the learning network's output, [B, C, ...].
        peer: the other network's probabilities of the same voxels; no gradient reaches them.
        valid: false where the crop is padding, [B, ...]; all voxels count if not given.
        gamma: a voxel teaches its class where the peer's largest probability is at least this.
        beta: a class is unlearnt where the peer's probability of it is below this.
        negative_gate: ask each class by itself, or the minimum over all classes, Eq. (8).
    """
    negative_weights = {"class": class_negative_weight, "minimum": minimum_negative_weight}
    peer = peer.detach()
    label = most_likely(peer)
    positive = positive_weight(peer, gamma) * F.cross_entropy(logits, label, reduction="none")
    negative = negative_weights[negative_gate](peer, beta) * -log_complement(logits)
    return masked_mean(positive + negative.sum(dim=1), valid)


def positive_weight(peer: Tensor, gamma: float = GAMMA) -> Tensor:
    """The peer's largest probability where it reaches `gamma`, else 0, Eq. (8), first line.

    Reaching it is enough: the paper's gradient table has a row exactly at the threshold.
    """
    confidence = peer.amax(dim=1)
    return confidence * (confidence >= gamma)


def class_negative_weight(peer: Tensor, beta: float = BETA) -> Tensor:
    """1 - p of each class that the peer gives less than `beta`, else 0, Eq. (8), second line.

    Each class but the most likely one is compared by itself. For two classes that is the paper's
    minimum; for more, the minimum alone would also unlearn a plausible runner-up. The most likely
    class is never unlearnt, however many share the probability.
    """
    return (1 - peer) * (peer < beta) * _other_classes(peer)


def minimum_negative_weight(peer: Tensor, beta: float = BETA) -> Tensor:
    """1 - min p for all classes but the most likely one where min p < `beta`, else 0.

    Eq. (8), second line, to the letter: one decision for the voxel. For two classes it is
    `class_negative_weight`.
    """
    least = peer.amin(dim=1, keepdim=True)
    return (1 - least) * (least < beta) * _other_classes(peer)


def _other_classes(peer: Tensor) -> Tensor:
    """0 for the most likely class of a voxel and 1 for the others, the 1 - OneHot of Eq. (7)."""
    return torch.ones_like(peer).scatter(1, most_likely(peer).unsqueeze(1), 0)


def semi_supervised_loss(
    logits: tuple[Tensor, Tensor],
    peers: tuple[Tensor, Tensor],
    valid: Tensor | None = None,
    loss: PeerLoss = crc_loss,
) -> Tensor:
    """Each network learns from the other, Eq. (6); Eq. (10) where crops and peers are mixed.

    Args:
        logits: the outputs of network 1 and network 2.
        peers: the probabilities of network 1 and network 2; each teaches the other network.
        valid: false where the crops are padding, [B, ...]; all voxels count if not given.
        loss: what a network learns from its peer, `crc_loss` in the paper.
    """
    first, second = (
        loss(own, peer, valid) for own, peer in zip(logits, reversed(peers), strict=True)
    )
    return first + second
