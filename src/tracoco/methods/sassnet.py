"""SASSNet (Li et al., MICCAI 2020): shapes in unlabelled crops must pass for labelled ones."""

from itertools import pairwise

import torch
import torch.nn.functional as F
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from tracoco.data.batch import Batch
from tracoco.methods.method import NetworkFactory, RunFacts
from tracoco.methods.parts.inner_optimizer import InnerOptimizer
from tracoco.methods.parts.two_heads import TwoHeads, TwoHeadsConfig
from tracoco.networks.layers import CONVOLUTION

SLOPE = 0.2
DROPOUT = 0.5
"""Share of whole channels, behind each halving but the last."""
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
"""Class of the labelled crops in the discriminator's answer; the unlabelled ones are 0."""


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
        self._shown: tuple[Tensor, Tensor, int] | None = None
        self._told_apart: float | None = None

    def forward(self, batch: Batch, step: int) -> dict[str, Tensor]:
        """What labels teach, and to have unlabelled crops taken for labelled ones."""
        logits, maps = self.look(batch.first.values)
        counted = batch.first.valid.unsqueeze(1)
        shapes, crops = maps * counted, batch.first.values * counted
        self._shown = shapes.detach(), crops, batch.labelled_count
        unlabelled = slice(batch.labelled_count, None)
        verdict = self.discriminator.part(shapes[unlabelled], crops[unlabelled], dropout=False)
        wanted = torch.full((len(verdict),), LABELLED, device=verdict.device)
        adversarial = self.unsupervised_weight(step) * F.cross_entropy(verdict, wanted)
        return self.learn_labels(batch, logits, maps) | {"adversarial": adversarial}

    def after_step(self, step: int) -> None:  # noqa: ARG002 - part of the contract
        """Move the discriminator."""
        if self._shown is None:
            return
        shapes, crops, labelled_count = self._shown
        truth = torch.full((len(crops),), 1 - LABELLED, device=crops.device)
        truth[:labelled_count] = LABELLED

        def loss(judge: Discriminator) -> Tensor:
            verdict = judge(shapes, crops, dropout=True)
            right = verdict.detach().argmax(dim=1) == truth
            self._told_apart = float(right.float().mean())
            return F.cross_entropy(verdict, truth)

        self.discriminator.descend(loss)
        self._shown = None

    def health(self, batch: Batch) -> dict[str, float]:
        """Also how many crops of the last batch the discriminator told apart."""
        told = {} if self._told_apart is None else {"told_apart": self._told_apart}
        return super().health(batch) | told
