"""DCNet (Chen et al., MICCAI 2023): decoupled consistency of two decoders.

In its losses, logits are those of the two decoders for the same crops, [B, C, ...]; `valid`,
[B, ...], is false where a crop is padding. `sure`, [B, C, ...], is true for classes that both
decoders are sure of.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from pydantic import Field, PositiveInt
from torch import Tensor

from tracoco.data.batch import Batch
from tracoco.losses.consistency import sharpened
from tracoco.losses.weighting import linear_rampup, masked_mean, most_likely, sigmoid_rampup
from tracoco.methods.method import NetworkFactory, RunFacts, StepOutput, unlabelled_probabilities
from tracoco.methods.parts.decoders import SeveralDecoders, SharedEncoder, released_rampup
from tracoco.settings import Settings


def least_confidence(logits: Sequence[Tensor], valid: Tensor) -> Tensor:
    """Mean of the largest class probability, of the decoder that is less sure on the whole."""
    means = [masked_mean(each.softmax(dim=1).amax(dim=1), valid) for each in logits]
    return torch.stack(means).amin()


def sure_classes(logits: Sequence[Tensor], threshold: Tensor) -> Tensor:
    """Classes that every decoder gives more than the threshold, [B, C, ...]."""
    return torch.stack([each.softmax(dim=1) > threshold for each in logits]).all(dim=0)


def follow_loss(
    logits: tuple[Tensor, Tensor], sure: Tensor, valid: Tensor, *, temperature: float
) -> Tensor:
    """Where they are not sure, the smaller probability of a class follows the larger one.

    Squared distance of the sharpened probabilities, a mean over all voxels and classes. No
    gradient reaches the larger one.
    """
    first, second = (each.detach().softmax(dim=1) for each in logits)
    sharp_first, sharp_second = (sharpened(each, temperature) for each in logits)
    leads, trails = (first > second) & ~sure, (second > first) & ~sure
    pulled = leads * (sharp_first.detach() - sharp_second).square()
    pulled = pulled + trails * (sharp_second.detach() - sharp_first).square()
    return masked_mean(pulled.mean(dim=1), valid)


def cross_label_loss(
    logits: tuple[Tensor, Tensor], sure: Tensor, valid: Tensor, *, everywhere: Tensor
) -> Tensor:
    """Where they are sure, each learns the other's label; a sum over voxels, divided by all.

    A label is the likeliest of the classes that both are sure of. With `everywhere` true it is the
    likeliest of all classes, and all voxels count.
    """
    allowed = sure | everywhere
    counted = allowed.any(dim=1)
    labels = [most_likely(each.detach().softmax(dim=1) * allowed) for each in logits]
    losses = [
        masked_mean(counted * F.cross_entropy(own, label, reduction="none"), valid)
        for own, label in zip(logits, reversed(labels), strict=True)
    ]
    return torch.stack(losses).sum()


def attention_loss(learner: Tensor, guide: Tensor, valid: Tensor) -> Tensor:
    """Squared distance of where two maps [B, C, ...] of one size are strong, a mean over voxels.

    No gradient reaches the guide. `valid` is of the crops, whatever the size of the maps.
    """
    mask = F.interpolate(valid.unsqueeze(1).float(), learner.shape[2:])
    distance = _attention(learner, mask) - _attention(guide.detach(), mask)
    return masked_mean(distance.square(), mask.flatten(1))


def _attention(maps: Tensor, mask: Tensor) -> Tensor:
    """Mean square over channels, of length 1 in each crop: [B, voxels]."""
    strength = maps.float().square().mean(dim=1, keepdim=True) * mask
    return F.normalize(strength.flatten(1), dim=1)


class DCNetConfig(Settings):
    """Settings of `dcnet`, by default those of its release.

    The release learns from labels by Dice alone; here the supervised loss is the same in every
    method.
    """

    consistency_weight: float = Field(default=1000.0, ge=0)
    """What attention and unsure voxels have together: both are means of small numbers."""
    unsure_fraction: float = Field(default=0.1, ge=0, le=1)
    """Largest fraction of that weight that unsure voxels have; attention has the rest."""
    rampup_steps: PositiveInt | None = None
    """Steps until this fraction is at its largest; if not given, the whole run in 2D, as released,
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

    def forward(self, batch: Batch, step: int) -> StepOutput:
        """The decoders' supervised losses, and on all crops what each part learns from others."""
        valid = batch.first.valid
        features = self.decoders.first.encode(batch.first.values)
        levels = [branch.decoder(features) for branch in self.decoders.branches]
        first, second = (
            branch.head(maps[-1]).float()
            for branch, maps in zip(self.decoders.branches, levels, strict=True)
        )
        logits = (first, second)
        confidence = least_confidence(logits, valid).detach()
        self.move_threshold(confidence, step)
        sure = sure_classes(logits, self.threshold)
        everywhere = confidence >= self.config.largest_threshold
        unsure = follow_loss(logits, sure, valid, temperature=self.config.temperature)
        labels = cross_label_loss(logits, sure, valid, everywhere=everywhere)
        attention = attend(features, levels[1], valid)
        fraction = self.config.unsure_fraction * sigmoid_rampup(step, self.rampup_steps)
        weight = self.config.consistency_weight
        terms = {
            "supervised": self.supervised(batch, logits).sum(),
            "attention": (1 - fraction) * weight * attention,
            "unsure": fraction * weight * unsure,
            "labels": self.config.label_weight * labels,
        }
        return StepOutput(terms, unlabelled_probabilities(batch, *logits[:2]))

    @torch.no_grad()
    def move_threshold(self, confidence: Tensor, step: int) -> None:
        """Average the threshold with the confidence, which counts the more the later it is."""
        fraction = linear_rampup(step + 1, self.total_steps)
        self.threshold.lerp_(confidence, fraction)
        self.threshold.clamp_(self.smallest_threshold, self.config.largest_threshold)


def attend(features: list[Tensor], levels: list[Tensor], valid: Tensor) -> Tensor:
    """The encoder's attention follows the decoder's; a sum over the levels that both have.

    Args:
        features: the encoder's maps, fine to coarse; the coarsest goes into the decoder.
        levels: the decoder's maps, coarse to fine.
        valid: false where the crops are padding, [B, ...].
    """
    # Not strict: a decoder may double once more than the encoder has maps for.
    pairs = zip(reversed(features[:-1]), levels, strict=False)
    return torch.stack([attention_loss(own, guide, valid) for own, guide in pairs]).sum()
