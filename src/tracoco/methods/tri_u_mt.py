"""Tri-U-MT (Wang et al., MICCAI 2021): a mean teacher of three tasks that knows how sure it is."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import torch
import torch.nn.functional as F
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from tracoco.data.batch import Batch
from tracoco.losses.consistency import normalised_entropy
from tracoco.losses.weighting import masked_mean, most_likely
from tracoco.methods.method import (
    NetworkFactory,
    RunFacts,
    StepOutput,
    unlabelled_probabilities,
)
from tracoco.methods.parts.decoders import Branch
from tracoco.methods.parts.student_teacher import (
    StudentTeacher,
    StudentTeacherConfig,
    mean_of_passes,
)
from tracoco.methods.parts.two_heads import (
    DistanceHead,
    distance_loss,
    present_classes,
    signed_distances,
)
from tracoco.networks.light_unet import Pointwise
from tracoco.networks.network import with_features


@dataclass(frozen=True, slots=True)
class TaskOutputs:
    """What the three decoders say of some crops."""

    logits: Tensor
    """Of each class, [B, C, ...]."""
    distances: Tensor
    """Signed, from -1 to 1, [B, C - 1, ...]."""
    pictures: Tensor
    """The crop where it is of a class, else 0: [B, C * channels, ...], from 0 to 1."""

    def __getitem__(self, chosen: slice) -> "TaskOutputs":
        """The same of some of the crops."""
        return TaskOutputs(self.logits[chosen], self.distances[chosen], self.pictures[chosen])


class ThreeTasks(nn.Module):
    """A network, and two further decoders on its encoder that serve the training alone."""

    def __init__(self, who: str, build_network: NetworkFactory, facts: RunFacts) -> None:
        super().__init__()
        self.network = with_features(build_network(), who)
        width = self.network.decoder_channels[-1]
        distances = DistanceHead(width, facts.classes)
        pictures = Pointwise(width, facts.classes * facts.channels)
        self.distance = Branch(self.network.make_decoder("linear"), distances)
        self.reconstruction = Branch(self.network.make_decoder("linear"), pictures)

    def forward(self, crops: Tensor) -> Tensor:
        """Logits of each class, [B, C, ...]."""
        logits: Tensor = self.network(crops)
        return logits

    def outputs(self, crops: Tensor, dropout: float = 0.0) -> TaskOutputs:
        """What all decoders say of the crops, less a fraction of the coarsest map's channels."""
        *fine, coarse = self.network.encode(crops)
        # Behind one long axis it drops whole channels in 2D and 3D alike.
        coarse = F.dropout1d(coarse.flatten(2), dropout).reshape(coarse.shape)
        features = [*fine, coarse]
        # The reconstruction has no skips: zeros add nothing, however a network merges its maps.
        alone = [*map(torch.zeros_like, fine), coarse]
        logits: Tensor = self.network.head(self.network.decode(features)).float()
        return TaskOutputs(
            logits, self.distance(features), self.reconstruction(alone).float().sigmoid()
        )


def task_losses(
    prediction: TaskOutputs, labels: Tensor, crops: Tensor, valid: Tensor
) -> tuple[Tensor, Tensor]:
    """How far distances and pictures are from those that labels, or pseudo-labels, ask for.

    A class that a crop does not have says nothing of distances and does not count there.

    Args:
        prediction: what learns.
        labels: class indices, [B, ...].
        crops: without noise, from 0 to 1, [B, channels, ...].
        valid: false where the crops are padding, [B, ...].
    """
    classes = prediction.logits.shape[1]
    present = present_classes(labels, valid, classes)
    present = present.reshape(*present.shape, *(1,) * (labels.ndim - 1))
    target = signed_distances(labels, valid, classes)
    distance = distance_loss(prediction.distances, target, valid.unsqueeze(1) & present)
    masks = torch.stack([labels == k for k in range(classes)], dim=1)
    wanted = (masks.unsqueeze(2) * crops.unsqueeze(1)).flatten(1, 2)
    pictures = (prediction.pictures - wanted).square().mean(dim=1)
    return distance, masked_mean(pictures, valid)


@dataclass(frozen=True, slots=True)
class TaskTarget:
    """What the teacher's passes say of one task together, and how far to trust it."""

    target: Tensor
    """[B, K, ...]."""
    trust: Tensor
    """Of each voxel, [B, K, ...] or [B, 1, ...]: 1 where the passes are certain or all alike."""


def ask_teacher(
    teacher: ThreeTasks, crops: Tensor, *, dropout: float, noise: float, passes: int
) -> list[TaskTarget]:
    """What passes with dropout and noise of their own say of masks, distances and pictures."""
    one_pass = partial(_one_pass, teacher, dropout)
    sure, mixed, *moments = mean_of_passes(one_pass, crops, noise=noise, passes=passes)
    probability = mixed / sure
    certainty = 1 - normalised_entropy(probability).unsqueeze(1)
    distances, distances_squared, pictures, pictures_squared = moments
    return [
        TaskTarget(probability, certainty),
        TaskTarget(distances, (-_variance(distances, distances_squared, passes)).exp()),
        TaskTarget(pictures, (-_variance(pictures, pictures_squared, passes).sqrt()).exp()),
    ]


def target_loss(own: Sequence[Tensor], targets: Sequence[TaskTarget], valid: Tensor) -> Tensor:
    """Squared difference to each target, by its trust: mean over voxels, sum over the tasks."""
    differences = [
        target.trust * (maps - target.target).square()
        for maps, target in zip(own, targets, strict=True)
    ]
    return torch.stack([masked_mean(each.mean(dim=1), valid) for each in differences]).sum()


def unit_maps(prediction: TaskOutputs) -> list[Tensor]:
    """What student and teacher are compared by, each from 0 to 1."""
    return [prediction.logits.softmax(dim=1), (prediction.distances + 1) / 2, prediction.pictures]


def _one_pass(teacher: ThreeTasks, dropout: float, crops: Tensor) -> tuple[Tensor, ...]:
    """What the means over all passes are taken of.

    Masks are weighted by the softmax over passes of their certainty: a mean of exponentials times
    masks, to be divided by the mean of the exponentials.
    """
    probability, distances, pictures = unit_maps(teacher.outputs(crops, dropout))
    sure = (1 - normalised_entropy(probability)).exp().unsqueeze(1)
    moments = (distances, distances.square(), pictures, pictures.square())
    return sure, sure * probability, *moments


def _variance(mean: Tensor, mean_of_squares: Tensor, passes: int) -> Tensor:
    """Of the passes, as of a sample; rounding must not make it negative."""
    return (mean_of_squares - mean.square()).clamp(min=0) * passes / (passes - 1)


class TriUMTConfig(StudentTeacherConfig):
    """Settings of `tri-u-mt`, by default those of its release for slices of the heart.

    The release learns masks by Dice alone; here the supervised loss is the same in every method.
    """

    unsupervised_weight: float = Field(default=0.1, ge=0)
    """Largest weight of the consistency with the teacher, as released, where the Dice of the masks
    is not halved."""
    rampup_steps: PositiveInt | None = None
    """Steps until the consistency has its full weight; half of the run if not given, as 100 of
    the release's 200 epochs. There the weight falls again afterwards, here it stays."""
    noise: float = Field(default=0.02, ge=0)
    """Deviation of the noise on the crops of the student and of each pass of the teacher, as a
    fraction of the intensity range, as released. It is cut off at twice that, where the release
    cuts off at two and a half times."""
    passes: int = Field(default=8, ge=2)
    """Of the teacher over each crop, as released."""
    dropout: float = Field(default=0.5, ge=0, lt=1)
    """Fraction of the coarsest map's channels that each pass of the teacher does without, as
    released; the student has only the dropout of its network."""
    distance_weight: float = Field(default=1.0, ge=0)
    """Of the signed distances on labelled crops; the release does not say its own."""
    reconstruction_weight: float = Field(default=1.0, ge=0)
    """Of the reconstruction on labelled crops; the release does not say its own."""
    pseudo_weight: float = Field(default=0.1, ge=0)
    """Of both on unlabelled crops, by the student's own labels, from the first step; as
    released."""
    auxiliary_rate: float = Field(default=0.1, gt=0)
    """Learning rate of the two further decoders, as a fraction of the network's; as released."""


class TriUMT(StudentTeacher):
    """Student and teacher segment, measure distances to surfaces, and reconstruct each class.

    The release compares doubled distances of the student with the teacher's plain ones on
    labelled crops, and one crop's distances with every other's; here like is compared with like.
    """

    Config = TriUMTConfig
    labelled_terms = frozenset({"supervised", "signed_distance"})
    config: TriUMTConfig
    student: ThreeTasks

    def __init__(
        self, config: TriUMTConfig, build_network: NetworkFactory, facts: RunFacts
    ) -> None:
        super().__init__(config, partial(ThreeTasks, "tri-u-mt", build_network, facts), facts)
        self.rampup_steps = config.rampup_steps or max(1, facts.total_steps // 2)
        self.limits = facts.intensity_limits

    def forward(self, batch: Batch, step: int) -> StepOutput:
        """Masks, both further tasks by labels and by pseudo-labels, and the teacher's targets."""
        labelled, unlabelled = slice(batch.labelled_count), slice(batch.labelled_count, None)
        crops, valid = batch.first.values, batch.first.valid
        prediction = self.student.outputs(self.noisy(crops))
        targets = self.targets(crops)
        low, high = self.limits
        shown = (crops - low) / (high - low)  # as pictures are, from 0 to 1
        distance, picture = task_losses(
            prediction[labelled], batch.labels, shown[labelled], valid[labelled]
        )
        pseudo_labels = most_likely(prediction.logits[unlabelled].detach())
        pseudo = task_losses(
            prediction[unlabelled], pseudo_labels, shown[unlabelled], valid[unlabelled]
        )
        terms = {
            "supervised": self.labelled_loss(prediction.logits, batch),
            "signed_distance": self.config.distance_weight * distance,
            "reconstruction": self.config.reconstruction_weight * picture,
            "pseudo_tasks": self.config.pseudo_weight * (pseudo[0] + pseudo[1]),
            "consistency": self.consistency_weight(step)
            * target_loss(unit_maps(prediction), targets, valid),
        }
        student = unlabelled_probabilities(batch, prediction.logits)
        return StepOutput(terms, (*student, targets[0].target[unlabelled]))

    def targets(self, crops: Tensor) -> list[TaskTarget]:
        """What the teacher's passes say of masks, distances and pictures."""
        return ask_teacher(
            cast("ThreeTasks", self.teacher.network),
            crops,
            dropout=self.config.dropout,
            noise=self.noise,
            passes=self.config.passes,
        )

    def inference_network(self) -> nn.Module:
        """The student's or the teacher's, without the further decoders."""
        return cast("ThreeTasks", super().inference_network()).network

    def parameter_groups(self) -> list[dict[str, Any]]:
        """The network, and the further decoders, which learn more slowly."""
        further = [*self.student.distance.parameters(), *self.student.reconstruction.parameters()]
        return [
            {"params": list(self.student.network.parameters())},
            {"params": further, "rate_factor": self.config.auxiliary_rate},
        ]
