"""DHC (Wang et al., MICCAI 2023): co-training against two kinds of imbalance between classes."""

from typing import Literal

import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from tracoco.config import Settings
from tracoco.data.batches import Batch
from tracoco.losses.class_weighted import weighted_cross_entropy, weighted_dice_loss
from tracoco.losses.weighting import most_likely, sigmoid_rampup
from tracoco.methods.class_weights import DifficultyWeights, DistributionWeights, class_counts
from tracoco.methods.mean_of_networks import MeanOfNetworks
from tracoco.methods.method import NetworkFactory, RunFacts
from tracoco.methods.peers import Peers


class DHCConfig(Settings):
    """Settings of `dhc`, by default those of its release."""

    unsupervised_weight: float = Field(default=1.0, ge=0)
    """Largest weight of what the peers teach."""
    rampup_steps: PositiveInt | None = None
    """Steps until the weight is at its largest; the whole run if not given."""
    difficulty_steps: PositiveInt = 50
    """Steps, about, over which the first network's gains and losses of a class are averaged."""
    distribution_decay: float = Field(default=0.99, ge=0, lt=1)
    """Share of the second network's class weights that each step keeps."""
    predict_with: Literal["mean", "first"] = "mean"
    """The mean of both networks' logits, as in the release, or the first network alone."""


class DHC(Peers):
    """Cross pseudo supervision on all crops; each network has class weights of its own.

    The first gives weight to classes that are hard to learn, the second to those that are rare
    among its pseudo-labels. The weights are also those of the supervised loss, since that is the
    point of the method. It is made for many classes: with two, the second network's background
    has no weight at all.
    """

    Config = DHCConfig

    def __init__(self, config: DHCConfig, build_network: NetworkFactory, facts: RunFacts) -> None:
        super().__init__(build_network(), build_network())
        self.config = config
        self.classes = facts.classes
        self.rampup_steps = config.rampup_steps or facts.total_steps
        self.difficulty = DifficultyWeights(facts.classes, config.difficulty_steps)
        self.distribution = DistributionWeights(facts.classes, config.distribution_decay)

    def forward(self, batch: Batch, step: int) -> dict[str, Tensor]:
        """Labels, and each other's hard labels, both by class weights of this step."""
        labelled, inside = slice(batch.labelled_count), batch.first.inside
        answers = self.training_pass(batch)
        labels = [most_likely(logits.detach()) for logits in answers]
        weights = self._class_weights(batch, answers[0], labels[1])
        supervised, taught = [], []
        for logits, peer, weight in zip(answers, reversed(labels), weights, strict=True):
            own = (logits[labelled], batch.labels, inside[labelled], weight)
            supervised += [weighted_cross_entropy(*own), weighted_dice_loss(*own)]
            taught.append(weighted_cross_entropy(logits, peer, inside, weight))
        ramp = self.config.unsupervised_weight * sigmoid_rampup(step, self.rampup_steps)
        return {
            "supervised": torch.stack(supervised).sum(),
            "ce": ramp * torch.stack(taught).sum(),
        }

    def _class_weights(self, batch: Batch, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        """The weights of each network, from the logits of one and the labels of the other."""
        count, inside = batch.labelled_count, batch.first.inside
        difficulty = self.difficulty(first[:count], batch.labels, inside[:count])
        labelled = class_counts(batch.labels, inside[:count], self.classes)
        unlabelled = class_counts(second[count:], inside[count:], self.classes)
        return difficulty, self.distribution(labelled, unlabelled)

    def inference_network(self) -> nn.Module:
        """Both networks or the first alone, as the settings say."""
        if self.config.predict_with == "mean":
            return MeanOfNetworks(self.networks)
        return super().inference_network()

    def predict_members(self, crops: Tensor) -> list[Tensor]:
        """Both networks' class probabilities, behind their mean where that is the prediction."""
        if self.config.predict_with == "first":
            return super().predict_members(crops)
        logits = torch.stack([network(crops).float() for network in self.networks])
        return [each.softmax(dim=1) for each in (logits.mean(dim=0), *logits)]
