"""Tri-U-MT (Wang et al., MICCAI 2021): a mean teacher of three tasks that knows how sure it is."""

from functools import partial
from typing import Any, cast

from pydantic import Field, PositiveInt
from torch import Tensor, nn

from tracoco.data.batches import Batch
from tracoco.losses.weighting import most_likely
from tracoco.methods.lessons import Lesson, ask_teacher, lesson_loss, unit_maps
from tracoco.methods.method import NetworkFactory, RunFacts, labelled_loss
from tracoco.methods.student_teacher import StudentTeacher, StudentTeacherConfig
from tracoco.methods.three_tasks import ThreeTasks, task_losses


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
    """Share of the coarsest map's channels that each pass of the teacher does without, as
    released; the student has only the dropout of its network."""
    distance_weight: float = Field(default=1.0, ge=0)
    """Of the signed distances on labelled crops; the release does not say its own."""
    reconstruction_weight: float = Field(default=1.0, ge=0)
    """Of the reconstruction on labelled crops; the release does not say its own."""
    pseudo_weight: float = Field(default=0.1, ge=0)
    """Of both on unlabelled crops, by the student's own labels, from the first step; as
    released."""
    auxiliary_rate: float = Field(default=0.1, gt=0)
    """Learning rate of the two further decoders, as a share of the network's; as released."""


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

    def forward(self, batch: Batch, step: int) -> dict[str, Tensor]:
        """Masks, both further tasks by labels and by pseudo-labels, and the teacher's lessons."""
        labelled, unlabelled = slice(batch.labelled_count), slice(batch.labelled_count, None)
        crops, inside = batch.first.values, batch.first.inside
        answer = self.student.look(self.noisy(crops))
        lessons = self.lessons(crops)
        self.remember(answer.logits[unlabelled], lessons[0].target[unlabelled], inside[unlabelled])
        low, high = self.limits
        shown = (crops - low) / (high - low)  # as pictures are, from 0 to 1
        distance, picture = task_losses(
            answer[labelled], batch.labels, shown[labelled], inside[labelled]
        )
        pseudo_labels = most_likely(answer.logits[unlabelled].detach())
        pseudo = task_losses(
            answer[unlabelled], pseudo_labels, shown[unlabelled], inside[unlabelled]
        )
        return {
            "supervised": labelled_loss(answer.logits, batch),
            "signed_distance": self.config.distance_weight * distance,
            "reconstruction": self.config.reconstruction_weight * picture,
            "pseudo_tasks": self.config.pseudo_weight * (pseudo[0] + pseudo[1]),
            "consistency": self.consistency_weight(step)
            * lesson_loss(unit_maps(answer), lessons, inside),
        }

    def lessons(self, crops: Tensor) -> list[Lesson]:
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
