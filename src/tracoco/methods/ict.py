"""ICT (Verma et al., IJCAI 2019): interpolation consistency training."""

import torch
from pydantic import Field
from torch import Tensor
from torch.distributions import Beta

from tracoco.data.batch import Batch
from tracoco.errors import UserError
from tracoco.losses.consistency import mse_loss
from tracoco.methods.health import PseudoLabelHealth, pair_health
from tracoco.methods.method import (
    NetworkFactory,
    RunFacts,
    StepOutput,
    unlabelled_probabilities,
)
from tracoco.methods.parts.student_teacher import StudentTeacher, StudentTeacherConfig


class ICTConfig(StudentTeacherConfig):
    """Settings of `ict`, by default those of its release for medical images."""

    noise: float = Field(default=0.0, ge=0)
    """Deviation of noise on the teacher's crops, as a fraction of the intensity range; none in the
    release, where the blend is all that disturbs."""
    alpha: float = Field(default=0.2, gt=0)
    """Blends are drawn from Beta(alpha, alpha): at 0.2, as released, most are nearly one crop."""


class ICT(StudentTeacher):
    """A blend of two unlabelled crops gets the same blend of the teacher's predictions."""

    Config = ICTConfig
    config: ICTConfig

    def __init__(self, config: ICTConfig, build_network: NetworkFactory, facts: RunFacts) -> None:
        super().__init__(config, build_network, facts)
        if facts.unlabelled_batch < 2:
            raise UserError(
                "method 'ict' blends unlabelled crops with each other, but a batch has "
                f"{facts.unlabelled_batch}; set data.unlabelled_batch to 2 or more"
            )

    def forward(self, batch: Batch, step: int) -> StepOutput:
        """Supervised loss, and the squared distance to the blended predictions.

        A voxel counts where both crops of its blend lie inside the scan.
        """
        count = batch.labelled_count
        crops, valid = batch.first.values[count:], batch.first.valid[count:]
        fractions = draw_fractions(len(crops), self.config.alpha).to(crops.device)
        prediction = blend(self.teacher(self.noisy(crops)), fractions)
        inputs = torch.cat([batch.first.values[:count], blend(crops, fractions)])
        logits = self.student(inputs).float()
        distance = mse_loss(logits[count:], prediction, both_valid(valid))
        terms = {
            "supervised": self.labelled_loss(logits, batch),
            "consistency": self.consistency_weight(step) * distance,
        }
        return StepOutput(terms, (*unlabelled_probabilities(batch, logits), prediction))

    def health(self, output: StepOutput, batch: Batch) -> PseudoLabelHealth:
        """Of the blended predictions."""
        student, teacher = output.pseudo_labels
        valid = both_valid(batch.first.valid[batch.labelled_count :])
        return pair_health(teacher, (student, teacher), valid)


def halves(values: Tensor) -> tuple[Tensor, Tensor]:
    """The first and the second crop of each pair: those of the two halves of a batch, in order.

    Of an odd number, the crop in the middle is in both halves and so in two pairs.
    """
    half = len(values) // 2
    return values[: len(values) - half], values[half:]


def both_valid(valid: Tensor) -> Tensor:
    """Where both crops of each pair lie inside the scan."""
    first, second = halves(valid)
    return first & second


def draw_fractions(count: int, alpha: float) -> Tensor:
    """The fraction of the second crop in each pair of `count` crops."""
    return Beta(alpha, alpha).sample((count - count // 2,))


def blend(values: Tensor, fractions: Tensor) -> Tensor:
    """One map out of the two of each pair, [B, C, ...]."""
    first, second = halves(values)
    return first.lerp(second, fractions.reshape(-1, *(1,) * (values.ndim - 1)))
