"""DHC (Wang et al., MICCAI 2023): co-training against two kinds of imbalance between classes."""

from collections.abc import Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from tracoco.data.batch import Batch
from tracoco.losses.supervised import class_dice_losses
from tracoco.losses.weighting import most_likely, sigmoid_rampup
from tracoco.methods.method import (
    MeanOfNetworks,
    NetworkFactory,
    RunFacts,
    StepOutput,
    unlabelled_probabilities,
)
from tracoco.methods.parts.co_training import Peers
from tracoco.settings import Settings


def weighted_cross_entropy(logits: Tensor, label: Tensor, valid: Tensor, weights: Tensor) -> Tensor:
    """Mean cross-entropy of the voxels inside, each by the weight of its class.

    The sum is divided by the weights of the voxels, and not by their number. Where no voxel has a
    weight it is 0, where torch's own would be NaN.

    Args:
        logits: the network's output, [B, C, ...].
        label: class indices, [B, ...].
        valid: false where the crops are padding, [B, ...].
        weights: of the classes, [C].
    """
    weight = weights[label] * valid
    loss = F.cross_entropy(logits, label, reduction="none")
    return (loss * weight).sum() / weight.sum().clamp(min=torch.finfo(weight.dtype).tiny)


SMOOTH = 1.0
"""Added to numerator and denominator of the weighted Dice, as released."""


def weighted_dice_loss(logits: Tensor, label: Tensor, valid: Tensor, weights: Tensor) -> Tensor:
    """1 - Dice of each foreground class, times its weight, then the mean of the classes.

    Denominators are sums of probabilities, as released.
    """
    losses = class_dice_losses(logits, label, valid, linear=True, smooth=SMOOTH)
    return (weights * losses)[1:].mean()


SMALLEST = 1e-8
"""Of a Dice, and what is added to fractions before they are divided."""


class DifficultyWeights(nn.Module):
    """More weight for classes whose Dice is low and falls more often than it rises (DHC)."""

    dice: Tensor
    learnt: Tensor
    unlearnt: Tensor
    missing: Tensor

    def __init__(self, classes: int, steps: int) -> None:
        """All classes begin alike.

        Args:
            classes: how many there are, with the background.
            steps: over how many, about, the gains and losses of a class are averaged.
        """
        super().__init__()
        self.kept = 1 - 1 / steps
        self.register_buffer("dice", torch.full((classes,), SMALLEST))
        self.register_buffer("learnt", torch.zeros(classes))
        self.register_buffer("unlearnt", torch.zeros(classes))
        self.register_buffer("missing", torch.ones(classes))

    @torch.no_grad()
    def forward(self, logits: Tensor, label: Tensor, valid: Tensor) -> Tensor:
        """Take in this step's prediction of the labelled crops; the weight of each class, [C].

        Args:
            logits: of the labelled crops, [B, C, ...].
            label: their class indices, [B, ...].
            valid: false where they are padding, [B, ...].
        """
        dice = self._class_dice(most_likely(logits), label, valid)
        change, ratio = dice - self.dice, (dice / self.dice).log()
        self.dice.copy_(dice)
        self._average(self.learnt, change.clamp(min=0) * ratio)
        self._average(self.unlearnt, change.clamp(max=0) * ratio)
        self._average(self.missing, 1 - dice)
        trouble = (self.unlearnt + SMALLEST) / (self.learnt + SMALLEST)
        return _scaled(trouble ** (1 / 5) * self.missing)

    def _average(self, past: Tensor, newest: Tensor) -> None:
        past.lerp_(newest, 1 - self.kept)

    def _class_dice(self, prediction: Tensor, label: Tensor, valid: Tensor) -> Tensor:
        """Dice of each class; where a class is neither labelled nor predicted, its last one."""
        classes = len(self.dice)
        shared = class_counts(prediction, valid & (prediction == label), classes)
        total = class_counts(prediction, valid, classes) + class_counts(label, valid, classes)
        dice = (2 * shared / total.clamp(min=1)).clamp(min=SMALLEST)
        return torch.where(total > 0, dice, self.dice)


class DistributionWeights(nn.Module):
    """More weight for classes that are rare among the pseudo-labels (DHC)."""

    weights: Tensor
    started: Tensor

    def __init__(self, classes: int, decay: float, labelled: Sequence[int] = ()) -> None:
        """The average begins at the labels of all scans, where these are known.

        Args:
            classes: how many there are, with the background.
            decay: fraction of the weights that each step keeps.
            labelled: voxels of each class in all labelled scans; if not given, the average begins
                at the labels of the first step.
        """
        super().__init__()
        self.decay = decay
        first = rarity(torch.tensor(labelled)) if labelled else torch.ones(classes)
        self.register_buffer("weights", first)
        self.register_buffer("started", torch.tensor(bool(labelled)))

    @torch.no_grad()
    def forward(self, labelled: Tensor, unlabelled: Tensor) -> Tensor:
        """Take in how often each class comes, [C]; the weight of each class, [C].

        Args:
            labelled: voxels among the labels of this step, where the average begins if the first
                weights are not known.
            unlabelled: voxels among the pseudo-labels.
        """
        past = torch.where(self.started, self.weights, rarity(labelled))
        weights = past.lerp(rarity(unlabelled), 1 - self.decay)
        self.weights.copy_(weights)
        self.started.fill_(value=True)
        return weights


def rarity(counts: Tensor) -> Tensor:
    """log(largest count / count) of each class, divided by the largest, times the classes; [C].

    A class that is missing counts as one voxel: it would take all the weight. The most frequent
    class has none, unless all are as frequent: then they weigh alike.
    """
    counts = counts.clamp(min=1)
    rare = (counts.max() / counts).log()
    return _scaled(torch.where(rare.max() > 0, rare, 1.0))


def class_counts(label: Tensor, counted: Tensor, classes: int) -> Tensor:
    """Voxels of each class among those that are counted, [C]."""
    return torch.stack([((label == k) & counted).sum() for k in range(classes)])


def _scaled(weights: Tensor) -> Tensor:
    """The largest weight becomes the number of classes."""
    largest = weights.max().clamp(min=torch.finfo(weights.dtype).tiny)
    return weights / largest * len(weights)


class DHCConfig(Settings):
    """Settings of `dhc`, by default those of its release."""

    unsupervised_weight: float = Field(default=0.1, ge=0)
    """Largest weight of what the peers teach: 0.1 in the command that the authors give, 1 where
    their script is called without it."""
    rampup_steps: PositiveInt | None = None
    """Steps until the weight is at its largest; the whole run if not given."""
    difficulty_steps: PositiveInt = 50
    """Steps, about, over which the first network's gains and losses of a class are averaged."""
    distribution_decay: float = Field(default=0.99, ge=0, lt=1)
    """Fraction of the second network's class weights that each step keeps."""
    predict_with: Literal["mean", "first"] = "mean"
    """The mean of both networks' logits, as in the release, or the first network alone."""


class DHC(Peers):
    """Cross pseudo supervision on all crops; each network has class weights of its own.

    The first gives weight to classes that are hard to learn, the second to those that are rare
    among its pseudo-labels. The weights are also those of the supervised loss, since that is the
    point of the method; so this loss has the release's form whatever the settings of `loss` are. It
    is made for many classes: with two, the second network's background has no weight at all.
    """

    Config = DHCConfig

    def __init__(self, config: DHCConfig, build_network: NetworkFactory, facts: RunFacts) -> None:
        super().__init__(build_network(), build_network())
        self.config = config
        self.classes = facts.classes
        self.rampup_steps = config.rampup_steps or facts.total_steps
        self.difficulty = DifficultyWeights(facts.classes, config.difficulty_steps)
        self.distribution = DistributionWeights(
            facts.classes, config.distribution_decay, facts.class_voxels
        )

    def forward(self, batch: Batch, step: int) -> StepOutput:
        """Labels, and each other's hard labels, both by class weights of this step."""
        labelled, valid = slice(batch.labelled_count), batch.first.valid
        predictions = self.logits(batch)
        labels = [most_likely(logits.detach()) for logits in predictions]
        weights = self._class_weights(batch, predictions[0], labels[1])
        supervised, losses = [], []
        for logits, peer, weight in zip(predictions, reversed(labels), weights, strict=True):
            own = (logits[labelled], batch.labels, valid[labelled], weight)
            supervised += [weighted_cross_entropy(*own), weighted_dice_loss(*own)]
            losses.append(weighted_cross_entropy(logits, peer, valid, weight))
        ramp = self.config.unsupervised_weight * sigmoid_rampup(step, self.rampup_steps)
        terms = {
            "supervised": torch.stack(supervised).sum(),
            "ce": ramp * torch.stack(losses).sum(),
        }
        return StepOutput(terms, unlabelled_probabilities(batch, *predictions))

    def _class_weights(self, batch: Batch, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        """The weights of each network, from the logits of one and the labels of the other."""
        count, valid = batch.labelled_count, batch.first.valid
        difficulty = self.difficulty(first[:count], batch.labels, valid[:count])
        labelled = class_counts(batch.labels, valid[:count], self.classes)
        unlabelled = class_counts(second[count:], valid[count:], self.classes)
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
