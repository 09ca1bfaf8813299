"""Figures of pseudo-labels that several methods report as their health."""

from torch import Tensor


def class_shares(labels: Tensor, classes: int) -> dict[str, float]:
    """Share of each class among labels of any shape."""
    counts = labels.flatten().bincount(minlength=classes)
    shares = counts / max(1, labels.numel())
    return {f"share/{index}": float(share) for index, share in enumerate(shares)}


def divergence_figures(first: Tensor, second: Tensor, inside: Tensor) -> dict[str, float]:
    """How far two networks part, by the paper's two measures of diversity.

    Args:
        first: probabilities of one network, [B, C, ...].
        second: those of the other.
        inside: false where the crops are padding, [B, ...].
    """
    alike = (first.argmax(dim=1) == second.argmax(dim=1))[inside]
    # Of the background's probability, so also of the foreground's; in voxels a crop.
    apart = (first - second)[:, 0].abs() * inside
    return {
        "agreement": float(alike.float().sum() / max(1, alike.numel())),
        "distance": float(apart.sum() / max(1, len(inside))),
    }
