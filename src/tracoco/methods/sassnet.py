"""SASSNet (Li et al., MICCAI 2020): shapes in unlabelled crops must pass for labelled ones."""

from dataclasses import replace
from itertools import pairwise

import torch
import torch.nn.functional as F
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from tracoco.data.batch import Batch
from tracoco.methods.health import PseudoLabelHealth
from tracoco.methods.method import NetworkFactory, RunFacts, StepOutput
from tracoco.methods.parts.inner_optimizer import InnerOptimizer
from tracoco.methods.parts.two_heads import TwoHeads, TwoHeadsConfig
from tracoco.networks.network import CONVOLUTION

SLOPE = 0.2
DROPOUT = 0.5
"""Fraction of whole channels, behind each halving but the last."""
HALVE = {"kernel_size": 4, "stride": 2, "padding": 1}


class Discriminator(nn.Module):
    """Convolutions that halve distance maps and crops four times, then a mean over all places.

    The layers are those of SASSNet's release. That has a mean for the crop sizes of two datasets,
    this one is for any crop.
    """

    def __init__(self, classes: int, channels: int, dimensions: int, filters: int) -> None:
        """`filters` is the number of channels behind the first halving."""
        super().__init__()
        convolution = CONVOLUTION[dimensions]
        self.of_maps = convolution(classes - 1, filters, **HALVE)
        self.of_crops = convolution(channels, filters, **HALVE)
        widths = [filters * 2**level for level in range(4)]
        self.deeper = nn.ModuleList(
            convolution(fine, coarse, **HALVE) for fine, coarse in pairwise(widths)
        )
        self.verdict = nn.Linear(widths[-1], 2)

    def forward(self, maps: Tensor, crops: Tensor, *, dropout: bool) -> Tensor:
        """Logits of unlabelled and of labelled, [B, 2].

        Args:
            maps: signed distances, [B, classes - 1, ...].
            crops: the crops that they belong to, [B, channels, ...].
            dropout: on while the discriminator learns, off while it judges.
        """
        features = self.of_maps(_halvable(maps)) + self.of_crops(_halvable(crops))
        for layer in self.deeper:
            features = F.leaky_relu(features, SLOPE)
            # Behind one long axis it drops whole channels in 2D and 3D alike.
            dropped = F.dropout1d(features.flatten(2), DROPOUT, training=dropout)
            features = layer(_halvable(dropped.reshape(features.shape)))
        verdict: Tensor = self.verdict(F.leaky_relu(features, SLOPE).flatten(2).mean(dim=2))
        return verdict.float()


def _halvable(maps: Tensor) -> Tensor:
    """An axis of one voxel gets a second one of zeros, so that thin crops can be halved too."""
    if min(maps.shape[2:]) > 1:
        return maps
    return F.pad(maps, [side for n in reversed(maps.shape[2:]) for side in (0, max(0, 2 - n))])


BETAS = (0.9, 0.99)
"""Of the discriminator's Adam, as released."""
LABELLED = 1
"""Class of the labelled crops in the discriminator's output; the unlabelled ones are 0."""


class SASSNetConfig(TwoHeadsConfig):
    """Settings of `sassnet`, by default those of its release for the left atrium."""

    unsupervised_weight: float = Field(default=0.01, ge=0)
    """Largest weight of what the discriminator teaches: that for 16 labelled scans, while for 8
    the release takes 0.015."""
    discriminator_filters: PositiveInt = 64
    """Channels behind its first layer, as released; fewer are faster on a CPU."""
    discriminator_rate: float = Field(default=1e-4, gt=0)
    """Learning rate of its Adam, as released."""


class SASSNet(TwoHeads):
    """A discriminator tells labelled from unlabelled crops by their signed distances.

    It learns from the maps that the step has made. The release makes them again for it, with the
    weights that were just moved and without dropout, at the price of a second pass.
    """

    Config = SASSNetConfig
    labelled_terms = frozenset({"supervised", "signed_distance"})

    def __init__(
        self, config: SASSNetConfig, build_network: NetworkFactory, facts: RunFacts
    ) -> None:
        super().__init__(config, build_network, facts, "sassnet")
        judge = Discriminator(
            facts.classes, facts.channels, facts.dimensions, config.discriminator_filters
        )
        self.discriminator = InnerOptimizer(judge, config.discriminator_rate, BETAS)

    def forward(self, batch: Batch, step: int) -> StepOutput:
        """What labels teach, and to have unlabelled crops taken for labelled ones."""
        logits, maps = self.logits_and_distances(batch.first.values)
        labelled, unlabelled = slice(batch.labelled_count), slice(batch.labelled_count, None)
        shapes, crops = shown(maps, batch)
        verdict = self.discriminator.part(shapes[unlabelled], crops[unlabelled], dropout=False)
        with torch.no_grad():
            other = self.discriminator.part(shapes[labelled], crops[labelled], dropout=False)
        wanted = torch.full((len(verdict),), LABELLED, device=verdict.device)
        adversarial = self.unsupervised_weight(step) * F.cross_entropy(verdict, wanted)
        terms = self.learn_labels(batch, logits, maps) | {"adversarial": adversarial}
        verdicts = torch.cat([other, verdict.detach()])
        return StepOutput(terms, (logits.detach(), maps.detach(), verdicts))

    def after_step(self, output: StepOutput, batch: Batch, step: int) -> None:
        """Move the discriminator."""
        shapes, crops = shown(output.pseudo_labels[1], batch)

        def loss(judge: Discriminator) -> Tensor:
            return F.cross_entropy(judge(shapes, crops, dropout=True), kinds(batch))

        self.discriminator.descend(loss)

    def health(self, output: StepOutput, batch: Batch) -> PseudoLabelHealth:
        """Also how many crops of the batch the discriminator told apart."""
        right = output.pseudo_labels[2].argmax(dim=1) == kinds(batch)
        health = super().health(output, batch)
        told_apart = float(right.float().mean())
        return replace(health, further={**health.further, "told_apart": told_apart})


def shown(maps: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
    """Signed distances and crops as the discriminator sees them: 0 in the padding."""
    counted = batch.first.valid.unsqueeze(1)
    return maps * counted, batch.first.values * counted


def kinds(batch: Batch) -> Tensor:
    """Which crops are labelled, as classes of the discriminator's verdict, [B]."""
    kinds = torch.full((len(batch.cases),), 1 - LABELLED, device=batch.labels.device)
    kinds[: batch.labelled_count] = LABELLED
    return kinds
