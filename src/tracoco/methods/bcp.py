"""BCP (Bai et al., CVPR 2023): bidirectional copy-paste of labelled and unlabelled crops."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from tracoco.components import keep_largest
from tracoco.data.batch import Batch
from tracoco.losses.supervised import supervised_loss
from tracoco.losses.weighting import masked_mean, most_likely
from tracoco.methods.health import PseudoLabelHealth, class_fractions
from tracoco.methods.method import Method, NetworkFactory, RunFacts, StepOutput
from tracoco.methods.parts.cutmix import place_box
from tracoco.methods.parts.student_teacher import EmaTeacher
from tracoco.settings import Settings


@dataclass(frozen=True, slots=True)
class Known:
    """Crops with what is taken for their labels."""

    crops: Tensor
    """[B, channels, ...]."""
    labels: Tensor
    """[B, ...]."""
    valid: Tensor
    """False where the crops are padding, [B, ...]."""

    def take(self, chosen: Tensor | slice) -> "Known":
        """Some of the crops, in this order."""
        return Known(self.crops[chosen], self.labels[chosen], self.valid[chosen])

    def paste(self, other: "Known", box: Tensor) -> "Known":
        """The same crops with what other crops hold in the box, [...], pasted in."""
        return Known(
            torch.where(box, other.crops, self.crops),
            torch.where(box, other.labels, self.labels),
            torch.where(box, other.valid, self.valid),
        )


def draw_box(size: Sequence[int], fraction: float) -> Tensor:
    """A mask that is true in a box as long as this fraction of each axis, wherever it fits."""
    return place_box(size, {axis: max(1, int(fraction * n)) for axis, n in enumerate(size)})


def bidirectional(labelled: Known, unlabelled: Known, box: Tensor) -> tuple[Known, Known]:
    """Half of the pairs have the labelled crop around the box, half have it inside.

    Where a batch has not as many crops of both kinds, those of one kind come again.
    """
    count = max(2, len(labelled.labels), len(unlabelled.labels))
    labelled = labelled.take(torch.arange(count) % len(labelled.labels))
    unlabelled = unlabelled.take(torch.arange(count) % len(unlabelled.labels))
    first, second = slice(count // 2), slice(count // 2, None)
    return (
        labelled.take(first).paste(unlabelled.take(first), box),
        unlabelled.take(second).paste(labelled.take(second), box),
    )


@torch.library.custom_op("tracoco::largest_components", mutates_args=())
def largest_components(labels: Tensor) -> Tensor:
    """Labels [B, ...] in which only the largest component of each class and crop is left.

    What goes is background. It is computed on the CPU; being an operation of torch's, it has a
    shape also where tensors have no values, so that the memory of a step can be counted.
    """
    kept = np.stack([keep_largest(label) for label in labels.cpu().numpy()])
    return torch.from_numpy(kept).to(labels.device)


@largest_components.register_fake
def _shape(labels: Tensor) -> Tensor:
    return torch.empty_like(labels)


class BCPConfig(Settings):
    """Settings of `bcp`, by default those of its release for the left atrium.

    A crop is in one mixed crop, so that the student sees half as many as a batch has: of 2 + 2
    crops 1 in the first stage and 2 in the second, of 4 + 4 as in the release 2 and 4. Take such
    a batch (`data.labelled_batch`, `data.unlabelled_batch`) where memory allows.
    """

    unsupervised_weight: float = Field(default=0.5, ge=0)
    """What a pseudo-label counts for beside a label; the release's alpha."""
    pretrain: float = Field(default=0.12, ge=0, lt=1)
    """Fraction of the steps that learn from labelled crops alone: 2,000 of 17,000 in the release, a
    quarter for ACDC."""
    box: float = Field(default=2 / 3, gt=0, lt=1)
    """Side of the box that is pasted, as a fraction of the crop along every axis."""
    decay: float = Field(default=0.99, ge=0, lt=1)
    """Fraction of the teacher that each step keeps, from the first one on."""
    largest_component: bool = True
    """Keep the largest component of each class in the pseudo-labels. Switch it off for structures
    that come in several parts."""


class BCP(Method):
    """A student that sees labelled in unlabelled crops and the reverse, and its averaged teacher.

    At first the student learns from labelled crops that are pasted into each other. The release
    then starts anew from the best weights so far and with the first learning rate; here the
    second stage goes on from the last ones, and the rate is the run's.

    Each half of the mixed crops goes through the student by itself, and each half of the unlabelled
    crops through the teacher, as in the release: BatchNorm takes its statistics of a half.
    """

    Config = BCPConfig
    config: BCPConfig

    def __init__(self, config: BCPConfig, build_network: NetworkFactory, facts: RunFacts) -> None:
        super().__init__()
        self.config = config
        self.student = build_network()
        self.teacher = EmaTeacher(self.student, config.decay, warms_up=False)
        self.pretrain_steps = round(config.pretrain * facts.total_steps)
        self.classes = facts.classes

    def forward(self, batch: Batch, step: int) -> StepOutput:
        """What labels teach, and past the first stage what the teacher's labels do."""
        crops, valid, count = batch.first.values, batch.first.valid, batch.labelled_count
        labelled = Known(crops[:count], batch.labels, valid[:count])
        box = draw_box(valid.shape[1:], self.config.box).to(crops.device)
        if step < self.pretrain_steps:
            return StepOutput({"supervised": self._pretrain(labelled, box)})
        found, labels = self.pseudo_labels(crops[count:], valid[count:])
        unlabelled = Known(crops[count:], labels, valid[count:])
        return StepOutput(self._copy_paste(labelled, unlabelled, box), (found, labels))

    def after_step(self, output: StepOutput, batch: Batch, step: int) -> None:
        """Move the teacher; until the first stage ends there is none, then it is the student."""
        if step + 1 == self.pretrain_steps:
            self.teacher.become(self.student)
        elif step >= self.pretrain_steps:
            self.teacher.update(step, self.student)

    def inference_network(self) -> nn.Module:
        """The student, as in the release."""
        return self.student

    def trained_networks(self) -> list[nn.Module]:
        """The student alone."""
        return [self.student]

    def health(self, output: StepOutput, batch: Batch) -> PseudoLabelHealth:
        """Class fractions of the pseudo-labels, and how much foreground is in largest parts."""
        if not output.pseudo_labels:
            return PseudoLabelHealth()
        found, labels = output.pseudo_labels
        fractions = class_fractions(labels, self.classes, batch.first.valid[batch.labelled_count :])
        kept = float(masked_mean(labels > 0, found > 0))
        return PseudoLabelHealth(fractions, further={"largest_component": kept})

    def pseudo_labels(self, crops: Tensor, valid: Tensor) -> tuple[Tensor, Tensor]:
        """The teacher's labels, and the same without small components; padding is background."""
        count = len(crops)
        halves = crops.split([count // 2, count - count // 2])
        found = torch.cat([most_likely(self.teacher(half)) for half in halves if len(half)]) * valid
        return found, largest_components(found) if self.config.largest_component else found

    def _pretrain(self, labelled: Known, box: Tensor) -> Tensor:
        """One half of the labelled crops with boxes of the other half."""
        count = len(labelled.labels)
        first = torch.arange((count + 1) // 2)
        second = (first + len(first)) % count
        mixed = labelled.take(first).paste(labelled.take(second), box)
        losses = [
            supervised_loss(student(mixed.crops).float(), mixed.labels, mixed.valid, self.loss)
            for student in self.trained_networks()
        ]
        return torch.stack(losses).sum()

    def _copy_paste(self, labelled: Known, unlabelled: Known, box: Tensor) -> dict[str, Tensor]:
        halves = bidirectional(labelled, unlabelled, box)
        predictions = [
            [student(half.crops).float() for half in halves] for student in self.trained_networks()
        ]
        return self.mixed_terms(predictions, halves, box)

    def mixed_terms(
        self, predictions: Sequence[Sequence[Tensor]], halves: Sequence[Known], box: Tensor
    ) -> dict[str, Tensor]:
        """What labels and pseudo-labels teach each student, by its logits of both halves."""
        losses = [
            supervised_loss(logits, half.labels, half.valid & part, self.loss)
            for prediction in predictions
            for logits, half in zip(prediction, halves, strict=True)
            for part in (~box, box)
        ]
        around_label, in_guess, around_guess, in_label = (
            torch.stack(losses).unflatten(0, (len(predictions), 4)).sum(dim=0)
        )
        return {
            "supervised": around_label + in_label,
            "copy_paste": self.config.unsupervised_weight * (in_guess + around_guess),
        }
