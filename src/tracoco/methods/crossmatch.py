"""CrossMatch (Zhao et al., JBHI 2024): perturbed images and features distilled into each other."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from pydantic import Field, PositiveInt
from torch import Tensor

from tracoco.data.batch import Batch
from tracoco.losses.weighting import sigmoid_rampup
from tracoco.methods.method import NetworkFactory, RunFacts, StepOutput
from tracoco.methods.parts.weak_to_strong import (
    LabelledView,
    Predictions,
    WeakToStrong,
    WeakToStrongConfig,
)
from tracoco.networks.network import Network, with_features
from tracoco.networks.statistics import mixes_kinds


class CrossMatchConfig(WeakToStrongConfig):
    """Settings of `crossmatch`, by default those of its release for ACDC.

    The release takes a quarter of cross-entropy and Dice of the labels, and an eighth of what each
    strong view teaches. Here the supervised loss is whole, as in every method, and so all weights
    are four times as large. There is no ramp.
    """

    strong_weight: float = Field(default=0.5, ge=0)
    """Weight of each of the two strong views."""
    distillation_weight: float = Field(default=1.0, ge=0)
    """Weight of what decoders with perturbed features learn; 2 in the release for the left
    atrium."""
    eta: float = Field(default=0.3, ge=0, le=1)
    """Fraction of it that each perturbed decoder learns from itself; the rest is from the decoder
    without perturbation."""
    weak_dropout: float = Field(default=0.25, ge=0, lt=1)
    """Fraction of the channels that the weak perturbation takes from each map of the encoder."""
    strong_dropout: float = Field(default=0.75, ge=0, lt=1)
    """Fraction of the channels that the strong perturbation takes."""
    final_threshold: float | None = Field(default=None, ge=0, le=1)
    """What the threshold rises to along half a Gaussian, as in the release for the left atrium; it
    stays as it is if not given."""
    threshold_steps: PositiveInt | None = None
    """Steps until the threshold is there; the whole run if not given."""
    background: bool = True
    """Whether the background is a class of the Dice of pseudo-labels; not in the release for the
    left atrium."""


class CrossMatch(WeakToStrong):
    """Three decoders with shared weights: features as they are, with few and with many dropped."""

    Config = CrossMatchConfig
    config: CrossMatchConfig
    network: Network

    def __init__(
        self, config: CrossMatchConfig, build_network: NetworkFactory, facts: RunFacts
    ) -> None:
        super().__init__(config, with_features(build_network(), "crossmatch"), facts)
        self.threshold_steps = config.threshold_steps or facts.total_steps

    def forward(self, batch: Batch, step: int) -> StepOutput:
        """Supervised, two strong views, and what perturbed decoders learn from both kinds."""
        logits, *dropped = self._decoders(batch.first.values, batch.labelled_count)
        plain = replace(self.predictions(batch, logits), threshold=self.threshold(step))
        guesses = [self._own_labels(plain, each) for each in dropped]
        first = self.strong_labels(plain)
        second, *own = self.strong_label_sets(plain, *guesses)
        views, *strong = self._decoders(torch.cat([first.crops, second.crops]), len(first.crops))
        learnt = zip((first, second), views.chunk(2), strict=True)
        taught = [(self.plain_labels(plain), each) for each in dropped]
        taught += [(second, each) for each in strong]
        eta = self.config.eta
        distilled = (1 - eta) * self._mean(taught)
        distilled = distilled + eta * self._mean(list(zip(own, strong, strict=True)))
        terms = {
            "supervised": self.labelled_loss(logits, batch),
            "strong": 2 * self.config.strong_weight * self._mean(list(learnt)),
            "distillation": self.config.distillation_weight * distilled,
        }
        return StepOutput(terms, (plain.own,))

    def threshold(self, step: int) -> float:
        """What a probability must reach for its label to count."""
        start, end = self.config.threshold, self.config.final_threshold
        if end is None:
            return start
        return start + (end - start) * sigmoid_rampup(step, self.threshold_steps)

    def _decoders(self, crops: Tensor, start: int) -> list[Tensor]:
        """Logits of all crops, and of those from `start` on with weakly and strongly dropped maps.

        Decoded together, as in the release, where BatchNorm takes its statistics over all kinds
        anyway.
        """
        features = self.network.encode(crops)
        perturbed = [
            [torch.feature_dropout(maps[start:], rate, train=True) for maps in features]
            for rate in (self.config.weak_dropout, self.config.strong_dropout)
        ]
        groups = [features, _stacked(perturbed)]
        if mixes_kinds(self.network):
            groups = [_stacked(groups)]
        logits = torch.cat([self.network.head(self.network.decode(group)) for group in groups])
        perturbed_count = len(crops) - start
        return list(logits.float().split([len(crops), perturbed_count, perturbed_count]))

    def _own_labels(self, plain: Predictions, logits: Tensor) -> Predictions:
        """What a perturbed decoder says of the crops, as labels for itself."""
        probability = logits.detach().softmax(dim=1)
        return replace(plain, own=probability, given=probability)

    def _mean(self, pairs: Sequence[tuple[LabelledView, Tensor]]) -> Tensor:
        """The mean Dice loss of several views and their logits."""
        background = self.config.background
        losses = [view.dice(logits, background=background) for view, logits in pairs]
        return torch.stack(losses).mean()


def _stacked(groups: Sequence[list[Tensor]]) -> list[Tensor]:
    """Maps of several groups of crops, level by level in one tensor."""
    return [torch.cat(maps) for maps in zip(*groups, strict=True)]
