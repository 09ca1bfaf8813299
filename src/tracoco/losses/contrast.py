"""The directional contrastive loss of CAC: unsure features follow sure ones of the same voxel."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Points:
    """Single voxels of one view: what the network saw there, and what it took it for."""

    features: Tensor
    """Of length one, [N, D]."""
    confidence: Tensor
    """The largest class probability, [N]."""
    label: Tensor
    """The most likely class, [N]."""


@dataclass(frozen=True, slots=True)
class Bank:
    """Features to keep away from, unless they have the same label; no gradient reaches them."""

    features: Tensor
    """Of length one, [M, D]."""
    label: Tensor
    """Pseudo-labels, [M]."""


def contrast_loss(
    first: Points, second: Points, bank: Bank, *, likely: float, temperature: float
) -> Tensor:
    """Both directions: at each voxel the less confident view follows the more confident one.

    Args:
        first: voxels of the overlap as seen in the first crops.
        second: the same voxels in the same order, as seen in the second crops.
        bank: features of these and of other voxels.
        likely: a view teaches where its confidence is above this.
        temperature: what similarities are divided by.
    """
    options = {"likely": likely, "temperature": temperature}
    return directional_loss(first, second, bank, **options) + directional_loss(
        second, first, bank, **options
    )


def directional_loss(
    learner: Points, teacher: Points, bank: Bank, *, likely: float, temperature: float
) -> Tensor:
    """-log of the teacher's share among the features that the learner is compared with.

    Those are the teacher's feature of the same voxel and all in the bank that have another label
    than the learner's. The mean is over the voxels where the teacher is sure, and surer.
    """
    sure = (teacher.confidence > likely) & (learner.confidence < teacher.confidence)
    # As indices: with a mask, every selection by it would wait for the GPU.
    taught = sure.nonzero().squeeze(1)
    label = learner.label[taught]
    # In full precision: a bfloat16 similarity divided by 0.1 would be off by up to 0.02.
    with torch.autocast(learner.features.device.type, enabled=False):
        own, other = learner.features[taught].float(), teacher.features[taught].detach().float()
        positive = (own * other).sum(dim=1, keepdim=True)
        total = 0 * positive.sum()  # connected, also where nothing is taught
        # Class by class: most voxels are background, and few in the bank are not.
        for value in label.unique():
            rows = (label == value).nonzero().squeeze(1)
            strangers = bank.features[bank.label != value].detach().float()
            choices = torch.cat([positive[rows], own[rows] @ strangers.T], dim=1) / temperature
            first = torch.zeros_like(rows)
            total = total + F.cross_entropy(choices, first, reduction="sum")
    return total / max(1, len(taught))
