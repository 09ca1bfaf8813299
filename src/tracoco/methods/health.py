"""The health of pseudo-labels: statistics of each step that tell whether they are sound.

They are taken at every step, so voxels outside the scan are masked: selecting the valid ones
would take longer than all the rest.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from tracoco.losses.weighting import masked_mean, most_likely


@dataclass(frozen=True, slots=True)
class PseudoLabelHealth:
    """What one step's pseudo-labels are like; what a method does not measure is empty or None."""

    class_fractions: tuple[float, ...] = ()
    """Fraction of the voxels that each class has among the pseudo-labels, background first."""
    agreement: float | None = None
    """Fraction of the voxels that two predictions give the same class."""
    distance: float | None = None
    """Between the foreground probabilities of two predictions, summed over a crop: in voxels."""
    common: tuple[float, ...] = ()
    """For each structure, the fraction of the voxels that both of two networks give it. These two
    learn by themselves: one is not the average of the other."""
    marked: tuple[float, ...] = ()
    """For each structure, the mean of the fractions that each network gives it. `common` divided by
    it is the Dice of the two networks' labels."""
    likely: float | None = None
    """Fraction of the voxels whose pseudo-label is sure enough to count."""
    unlikely: float | None = None
    """Fraction of the classes and voxels that are all but ruled out."""
    further: Mapping[str, float] = field(default_factory=dict)
    """What one method alone measures, by name."""


def class_fractions(labels: Tensor, classes: int, valid: Tensor | None = None) -> tuple[float, ...]:
    """Fraction of each class among labels of any shape, all of them or the valid ones."""
    counted = torch.ones_like(labels, dtype=torch.bool) if valid is None else valid
    return tuple(float(masked_mean(labels == k, counted)) for k in range(classes))


def predicted_fractions(prediction: Tensor, valid: Tensor) -> tuple[float, ...]:
    """Fraction of each class among the most likely ones of probabilities [B, C, ...]."""
    return class_fractions(most_likely(prediction), prediction.shape[1], valid)


def divergence(first: Tensor, second: Tensor, valid: Tensor) -> tuple[float, float]:
    """`agreement` and `distance` of two predictions, the paper's two measures of diversity.

    Args:
        first: probabilities of one network, [B, C, ...].
        second: those of the other.
        valid: false where the crops are padding, [B, ...].
    """
    # Of the background's probability, so also of the foreground's; in voxels a crop.
    apart = (first[:, 0] - second[:, 0]).abs() * valid
    agreement = masked_mean(most_likely(first) == most_likely(second), valid)
    return float(agreement), float(apart.sum() / max(1, len(valid)))


def structure_fractions(
    first: Tensor, second: Tensor, valid: Tensor
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """`common` and `marked` of two networks that learn by themselves.

    Args:
        first: probabilities of one network, [B, C, ...].
        second: those of the other.
        valid: false where the crops are padding, [B, ...].
    """
    labels, others = most_likely(first), most_likely(second)
    common, marked = [], []
    for k in range(1, first.shape[1]):
        here, there = labels == k, others == k
        common.append(masked_mean(here & there, valid))
        marked.append((masked_mean(here, valid) + masked_mean(there, valid)) / 2)
    values = torch.stack([*common, *marked]).tolist()  # fetched from a GPU once
    return tuple(values[: len(common)]), tuple(values[len(common) :])


def pair_health(
    pseudo_labels: Tensor, pair: tuple[Tensor, Tensor], valid: Tensor, **further: float
) -> PseudoLabelHealth:
    """Class fractions of pseudo-labels, and how far two predictions part.

    Args:
        pseudo_labels: probabilities of the unlabelled crops, [B, C, ...].
        pair: two predictions of the same crops, e.g. of student and teacher.
        valid: false where these crops are padding.
        further: what else was measured.
    """
    agreement, distance = divergence(*pair, valid)
    return PseudoLabelHealth(
        predicted_fractions(pseudo_labels, valid), agreement, distance, further=further
    )


def sure_pair_health(
    predictions: Sequence[Tensor], valid: Tensor, threshold: float
) -> PseudoLabelHealth:
    """Class fractions of the labels of two teachers, how far these agree, how many are sure.

    Args:
        predictions: probabilities of each teacher, and those of both together, which label.
        valid: false where the crops are padding.
        threshold: a label is sure where its probability is at least this.
    """
    first, second, both = predictions
    sure = float(masked_mean(both.amax(dim=1) >= threshold, valid))
    return replace(pair_health(both, (first, second), valid), likely=sure)


def peer_health(pseudo_labels: Sequence[Tensor], valid: Tensor) -> PseudoLabelHealth:
    """Class fractions of two networks' pseudo-labels, and how far the two agree on them.

    Args:
        pseudo_labels: probabilities of the unlabelled crops from each network.
        valid: false where these crops are padding.
    """
    first, second = pseudo_labels
    labels = torch.stack([most_likely(first), most_likely(second)])
    fractions = class_fractions(labels, first.shape[1], valid.expand_as(labels))
    agreement, distance = divergence(first, second, valid)
    common, marked = structure_fractions(first, second, valid)
    return PseudoLabelHealth(fractions, agreement, distance, common, marked)


def gate_fractions(
    peers: Sequence[Tensor], valid: Tensor, *, gamma: float, beta: float
) -> tuple[float, float]:
    """`likely` and `unlikely`: what passes two thresholds of several pseudo-labels [B, C, ...]."""
    certain = [masked_mean(peer.amax(dim=1) >= gamma, valid) for peer in peers]
    # Every class has a fraction of its own: with two, half of the probabilities are the larger.
    ruled_out = [masked_mean((peer < beta).float().mean(dim=1), valid) for peer in peers]
    return float(torch.stack(certain).mean()), float(torch.stack(ruled_out).mean())
