"""SDCL (Song and Wang, MICCAI 2024): where two students differ, correct them and erase errors."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from pydantic import Field
from torch import Tensor, nn

from tracoco.losses.weighting import masked_mean, most_likely
from tracoco.methods.bcp import BCP, BCPConfig, Known
from tracoco.methods.method import NetworkFactory, RunFacts
from tracoco.methods.parts.co_training import second_network


def correct_loss(logits: Tensor, label: Tensor, weight: Tensor, where: Tensor) -> Tensor:
    """Squared distance of probabilities to the label, mean over classes and the voxels `where`.

    Args:
        logits: a student's output, [B, C, ...].
        label: class indices of labels and pseudo-labels, [B, ...].
        weight: what each voxel counts for, [B, ...].
        where: true where the two students give different classes, [B, ...].
    """
    target = torch.zeros_like(logits).scatter(1, label.unsqueeze(1), 1.0)
    squared = (logits.softmax(dim=1) - target).square().mean(dim=1)
    return masked_mean(weight * squared, where)


def erase_loss(logits: Tensor, label: Tensor, weight: Tensor, where: Tensor) -> Tensor:
    """KL(uniform || prediction) where a student is wrong, mean over these of the voxels `where`.

    It makes a wrong class less certain without saying which one is right. The arguments are those
    of `correct_loss`.
    """
    wrong = where & (most_likely(logits) != label)
    divergence = -logits.log_softmax(dim=1).mean(dim=1) - math.log(logits.shape[1])
    return masked_mean(weight * divergence, wrong)


class SDCLConfig(BCPConfig):
    """Settings of `sdcl`: those of `bcp`, and by default those of its release for the left atrium.

    The release halves the supervised loss of each mixture. Here it is whole, as in every method,
    and so the weights beside it are twice as large.
    """

    correct_weight: float = Field(default=1.0, ge=0)
    """Weight of the squared distance to labels where students differ; 0.5 in the release, and 0.3
    for the pancreas, beside half of the supervised loss."""
    erase_weight: float = Field(default=0.1, ge=0)
    """Weight of the divergence of wrong predictions from equally likely classes there; 0.05 in the
    release, and 0.1 for the pancreas, beside half of the supervised loss."""
    second: str | None = None
    """The second student, by a name as in `network.name`. If not given it is the run's own network
    with other first weights; in the release it is a VNet whose encoder is a ResNet-34."""
    second_options: dict[str, Any] = Field(default_factory=dict)
    """Further arguments of the second student, as in `network.options`; none in the release."""


class SDCL(BCP):
    """Bidirectional copy-paste with two students; the teacher is the average of the first."""

    Config = SDCLConfig
    config: SDCLConfig

    def __init__(self, config: SDCLConfig, build_network: NetworkFactory, facts: RunFacts) -> None:
        super().__init__(config, build_network, facts)
        if config.second is None:
            self.second = build_network()
        else:
            self.second = second_network(build_network, config.second, config.second_options)

    def trained_networks(self) -> list[nn.Module]:
        """Both students."""
        return [self.student, self.second]

    def predict_members(self, crops: Tensor) -> list[Tensor]:
        """What each student says; the first predicts."""
        return [self.predict(crops), self.second(crops).float().softmax(dim=1)]

    def mixed_terms(
        self, predictions: Sequence[Sequence[Tensor]], halves: Sequence[Known], box: Tensor
    ) -> dict[str, Tensor]:
        """Those of copy-paste, and what voxels teach to which the students give unlike classes."""
        corrected, erased = [], []
        for first, second, half, guessed in zip(*predictions, halves, (box, ~box), strict=True):
            differ = (most_likely(first) != most_likely(second)) & half.valid
            weight = torch.where(guessed, self.config.unsupervised_weight, 1.0)
            for logits in (first, second):
                corrected.append(correct_loss(logits, half.labels, weight, differ))
                erased.append(erase_loss(logits, half.labels, weight, differ))
        return {
            **super().mixed_terms(predictions, halves, box),
            "correct": self.config.correct_weight * torch.stack(corrected).sum(),
            "erase": self.config.erase_weight * torch.stack(erased).sum(),
        }
