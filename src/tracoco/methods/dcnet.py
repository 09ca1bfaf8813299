"""DCNet (Chen et al., MICCAI 2023): decoupled consistency of two decoders."""

import torch
from pydantic import Field, PositiveInt
from torch import Tensor

from tracoco.config import Settings
from tracoco.data.batches import Batch
from tracoco.losses.decoupled import (
    attention_loss,
    cross_label_loss,
    follow_loss,
    least_confidence,
    sure_classes,
)
from tracoco.losses.weighting import linear_rampup, sigmoid_rampup
from tracoco.methods.decoders import SeveralDecoders
from tracoco.methods.method import NetworkFactory, RunFacts
from tracoco.methods.shared_encoder import SharedEncoder, released_rampup


class DCNetConfig(Settings):
    """Settings of `dcnet`, by default those of its release.

    The release learns from labels by Dice alone; here the supervised loss is the same in every
    method.
    """

    consistency_weight: float = Field(default=1000.0, ge=0)
    """What attention and unsure voxels have together: both are means of small numbers."""
    unsure_share: float = Field(default=0.1, ge=0, le=1)
    """Largest share of that weight that unsure voxels have; attention has the rest."""
    rampup_steps: PositiveInt | None = None
    """Steps until this share is at its largest; if not given, the whole run in 2D, as released,
    and two fifths of it in 3D, where nothing was published."""
    label_weight: float = Field(default=0.3, ge=0)
    """Of the labels that the decoders give each other where both are sure."""
    temperature: float = Field(default=0.5, gt=0)
    """Of the probabilities that unsure voxels are compared by; the release takes 0.5 for hearts
    and 1 for prostates."""
    largest_threshold: float = Field(default=0.95, gt=0, lt=1)
    """What the threshold of being sure ends at; decoders that are surer on average teach each
    other everywhere."""


class DCNet(SharedEncoder):
    """Two decoders that teach each other, and an encoder that attends to what they attend to."""

    Config = DCNetConfig
    threshold: Tensor

    def __init__(self, config: DCNetConfig, build_network: NetworkFactory, facts: RunFacts) -> None:
        decoders = SeveralDecoders("dcnet", build_network, ("linear", "transpose"))
        super().__init__(decoders, "first")
        self.config = config
        # Saved with the weights: it is an average over the steps so far.
        self.register_buffer("threshold", torch.tensor(1 / facts.classes))
        self.smallest_threshold = 1 / facts.classes
        self.total_steps = facts.total_steps
        self.rampup_steps = released_rampup(config.rampup_steps, facts)

    def forward(self, batch: Batch, step: int) -> dict[str, Tensor]:
        """The decoders' supervised losses, and on all crops what each part learns from others."""
        inside = batch.first.inside
        features = self.decoders.first.encode(batch.first.values)
        levels = [branch.decoder(features) for branch in self.decoders.branches]
        first, second = (
            branch.head(maps[-1]).float()
            for branch, maps in zip(self.decoders.branches, levels, strict=True)
        )
        logits = (first, second)
        self.remember(batch, logits)
        confidence = least_confidence(logits, inside).detach()
        self.move_threshold(confidence, step)
        sure = sure_classes(logits, self.threshold)
        everywhere = confidence >= self.config.largest_threshold
        unsure = follow_loss(logits, sure, inside, temperature=self.config.temperature)
        labels = cross_label_loss(logits, sure, inside, everywhere=everywhere)
        attention = attend(features, levels[1], inside)
        share = self.config.unsure_share * sigmoid_rampup(step, self.rampup_steps)
        weight = self.config.consistency_weight
        return {
            "supervised": self.supervised(batch, logits).sum(),
            "attention": (1 - share) * weight * attention,
            "unsure": share * weight * unsure,
            "labels": self.config.label_weight * labels,
        }

    @torch.no_grad()
    def move_threshold(self, confidence: Tensor, step: int) -> None:
        """Average the threshold with the confidence, which counts the more the later it is."""
        share = linear_rampup(step + 1, self.total_steps)
        self.threshold.lerp_(confidence, share)
        self.threshold.clamp_(self.smallest_threshold, self.config.largest_threshold)


def attend(features: list[Tensor], levels: list[Tensor], inside: Tensor) -> Tensor:
    """The encoder's attention follows the decoder's; a sum over the levels that both have.

    Args:
        features: the encoder's maps, fine to coarse; the coarsest goes into the decoder.
        levels: the decoder's maps, coarse to fine.
        inside: false where the crops are padding, [B, ...].
    """
    # Not strict: a decoder may double once more than the encoder has maps for.
    pairs = zip(reversed(features[:-1]), levels, strict=False)
    return torch.stack([attention_loss(own, guide, inside) for own, guide in pairs]).sum()
