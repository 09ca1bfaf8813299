"""Weights of classes that follow the training: for those hard to learn, and for the rare ones."""

import torch
from torch import Tensor, nn

from tracoco.losses.weighting import most_likely

SMALLEST = 1e-8
"""Of a Dice, and what is added to shares before they are divided."""


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
    def forward(self, logits: Tensor, label: Tensor, inside: Tensor) -> Tensor:
        """Take in this step's answer to the labelled crops; the weight of each class, [C].

        Args:
            logits: of the labelled crops, [B, C, ...].
            label: their class indices, [B, ...].
            inside: false where they are padding, [B, ...].
        """
        dice = self._class_dice(most_likely(logits), label, inside)
        change, ratio = dice - self.dice, (dice / self.dice).log()
        self.dice.copy_(dice)
        self._average(self.learnt, change.clamp(min=0) * ratio)
        self._average(self.unlearnt, change.clamp(max=0) * ratio)
        self._average(self.missing, 1 - dice)
        trouble = (self.unlearnt + SMALLEST) / (self.learnt + SMALLEST)
        return _scaled(trouble ** (1 / 5) * self.missing)

    def _average(self, past: Tensor, newest: Tensor) -> None:
        past.lerp_(newest, 1 - self.kept)

    def _class_dice(self, answer: Tensor, label: Tensor, inside: Tensor) -> Tensor:
        """Dice of each class; where a class is neither labelled nor answered, its last one."""
        classes = len(self.dice)
        shared = class_counts(answer, inside & (answer == label), classes)
        total = class_counts(answer, inside, classes) + class_counts(label, inside, classes)
        dice = (2 * shared / total.clamp(min=1)).clamp(min=SMALLEST)
        return torch.where(total > 0, dice, self.dice)


class DistributionWeights(nn.Module):
    """More weight for classes that are rare among the pseudo-labels (DHC)."""

    weights: Tensor
    started: Tensor

    def __init__(self, classes: int, decay: float) -> None:
        """Nothing is known before the first step.

        Args:
            classes: how many there are, with the background.
            decay: share of the weights that each step keeps.
        """
        super().__init__()
        self.decay = decay
        self.register_buffer("weights", torch.ones(classes))
        self.register_buffer("started", torch.zeros((), dtype=torch.bool))

    @torch.no_grad()
    def forward(self, labelled: Tensor, unlabelled: Tensor) -> Tensor:
        """Take in how often each class comes, [C]; the weight of each class, [C].

        Args:
            labelled: voxels among the labels; they are where the average begins.
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
