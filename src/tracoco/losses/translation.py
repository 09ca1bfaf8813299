"""Translation consistency: one prediction inside the overlap of two crops, whatever surrounds it.

All functions take log-probabilities [B, C, ...] of the first and the second crop of each pair,
and the boxes of their overlap as seen from the first and from the second crop.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tracoco.geometry import Box
from tracoco.losses.weighting import masked_mean

CONSISTENCY_WEIGHT, ENTROPY_WEIGHT = 1.0, 0.1
"""alpha 1 and alpha 2 of Eq. (3) in all experiments of the paper."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """Where the two crops of each pair meet, and which of those voxels lie inside the scan."""

    boxes: Sequence[tuple[Box, Box]]
    """A pair for each pair of crops, as `crop_pair` gives them: the overlap as seen from the first
    and from the second crop."""
    valid: Tensor | None = None
    """Of the first crops, [B, ...]; the overlap's voxels are the same in both. All of them lie
    inside the scan if it is not given."""

    def mask(self, index: int) -> Tensor | None:
        """Which voxels of an overlap lie inside the scan; None where all of them do."""
        here, _ = self.boxes[index]
        return None if self.valid is None else self.valid[index][here.slices]


def translation_terms(
    views: Sequence[tuple[Tensor, Tensor]],
    overlap: Overlap,
    *,
    consistency_weight: float = CONSISTENCY_WEIGHT,
    entropy_weight: float = ENTROPY_WEIGHT,
    stop_gradient: bool = False,
) -> dict[str, Tensor]:
    """The two weighted terms of Eq. (3), apart so that each is logged; the loss is their sum.

    Args:
        views: the log-probabilities of the first and the second crops, a pair for each network.
        overlap: where those crops meet.
        consistency_weight: alpha 1.
        entropy_weight: alpha 2.
        stop_gradient: treat the first crop's prediction as fixed in the divergence, so that only
            the second follows it; the entropies move both all the same.
    """
    targets = [(first.detach() if stop_gradient else first, second) for first, second in views]
    divergences = torch.stack([overlap_divergence(*target, overlap) for target in targets])
    entropies = torch.stack([negative_entropy(*view, overlap) for view in views])
    return {
        "translation": consistency_weight * divergences.sum(),
        "entropy": entropy_weight * entropies.sum(),
    }


def overlap_divergence(first: Tensor, second: Tensor, overlap: Overlap) -> Tensor:
    """KL(first || second) of the class probabilities in the overlap, Eq. (4).

    The gradient reaches both crops, since the paper names neither as the teacher.
    """
    return _overlap_mean(_divergence, first, second, overlap)


def negative_entropy(first: Tensor, second: Tensor, overlap: Overlap) -> Tensor:
    """-(H(first) + H(second)) in the overlap, Eq. (5): minimised, it keeps predictions soft."""
    return _overlap_mean(_negative_entropies, first, second, overlap)


def _divergence(first: Tensor, second: Tensor) -> Tensor:
    return (first.exp() * (first - second)).sum(dim=0)


def _negative_entropies(first: Tensor, second: Tensor) -> Tensor:
    return (first.exp() * first + second.exp() * second).sum(dim=0)


def _overlap_mean(
    value: Callable[[Tensor, Tensor], Tensor], first: Tensor, second: Tensor, overlap: Overlap
) -> Tensor:
    """Mean over each overlap, then over the pairs, so that a small overlap counts in full."""
    means = []
    # Taken apart once: a gradient of one crop then need not be filled up to that of all.
    for index, (*predictions, (here, there)) in enumerate(
        zip(first, second, overlap.boxes, strict=True)
    ):
        voxels = value(predictions[0][:, *here.slices], predictions[1][:, *there.slices])
        means.append(masked_mean(voxels, overlap.mask(index)))
    return torch.stack(means).mean()
