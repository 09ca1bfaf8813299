"""Statistics of pseudo-labels that several methods report as their health.

They are taken at every step, so voxels outside the scan are masked: to pick those inside takes
longer than all the rest.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from tracoco.losses.weighting import masked_mean, most_likely


def class_fractions(labels: Tensor, classes: int, valid: Tensor | None = None) -> dict[str, float]:
    """Share of each class among labels of any shape, all of them or those inside."""
    counted = torch.ones_like(labels, dtype=torch.bool) if valid is None else valid
    return {f"share/{k}": float(masked_mean(labels == k, counted)) for k in range(classes)}


def predicted_fractions(prediction: Tensor, valid: Tensor) -> dict[str, float]:
    """Share of each class among the most likely ones of probabilities [B, C, ...]."""
    return class_fractions(most_likely(prediction), prediction.shape[1], valid)


def divergence_figures(first: Tensor, second: Tensor, valid: Tensor) -> dict[str, float]:
    """How far two networks part, by the paper's two measures of diversity.

    Args:
        first: probabilities of one network, [B, C, ...].
        second: those of the other.
        valid: false where the crops are padding, [B, ...].
    """
    # Of the background's probability, so also of the foreground's; in voxels a crop.
    apart = (first[:, 0] - second[:, 0]).abs() * valid
    return {
        "agreement": float(masked_mean(most_likely(first) == most_likely(second), valid)),
        "distance": float(apart.sum() / max(1, len(valid))),
    }


def structure_figures(first: Tensor, second: Tensor, valid: Tensor) -> dict[str, float]:
    """Where two networks that learn by themselves find each structure.

    `common/K` is the share of the voxels that both give structure K, and `marked/K` the mean of the
    shares that each gives it. Their quotient is the Dice of the two networks' labels.

    Args:
        first: probabilities of one network, [B, C, ...].
        second: those of the other.
        valid: false where the crops are padding, [B, ...].
    """
    labels, others = most_likely(first), most_likely(second)
    figures = {}
    for k in range(1, first.shape[1]):
        here, there = labels == k, others == k
        figures[f"common/{k}"] = masked_mean(here & there, valid)
        figures[f"marked/{k}"] = (masked_mean(here, valid) + masked_mean(there, valid)) / 2
    values = torch.stack(list(figures.values())).tolist()  # fetched from a GPU once
    return dict(zip(figures, values, strict=True))


def peer_figures(pseudo_labels: Sequence[Tensor], valid: Tensor) -> dict[str, float]:
    """Class shares of two networks' pseudo-labels, and how far the two agree on them.

    Args:
        pseudo_labels: probabilities of the unlabelled crops from each network, or nothing yet.
        valid: false where these crops are padding.
    """
    if not pseudo_labels:
        return {}
    first, second = pseudo_labels
    labels = torch.stack([most_likely(first), most_likely(second)])
    fractions = class_fractions(labels, first.shape[1], valid.expand_as(labels))
    apart = divergence_figures(first, second, valid)
    return fractions | apart | structure_figures(first, second, valid)


def gate_figures(
    peers: Sequence[Tensor], valid: Tensor, *, gamma: float, beta: float
) -> dict[str, float]:
    """Shares of several pseudo-labels [B, C, ...] that pass two thresholds of confidence."""
    certain = [masked_mean(peer.amax(dim=1) >= gamma, valid) for peer in peers]
    # Every class has a share of its own: with two, half of the probabilities are the larger ones.
    ruled_out = [masked_mean((peer < beta).float().mean(dim=1), valid) for peer in peers]
    return {
        "likely": float(torch.stack(certain).mean()),
        "unlikely": float(torch.stack(ruled_out).mean()),
    }
