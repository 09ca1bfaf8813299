"""UA-MT (Yu et al., MICCAI 2019): an uncertainty-aware mean teacher."""

from pydantic import Field, PositiveInt
from torch import Tensor

from tracoco.data.batch import Batch
from tracoco.losses.consistency import mse_loss, normalised_entropy
from tracoco.losses.weighting import masked_mean, sigmoid_rampup
from tracoco.methods.health import PseudoLabelHealth, pair_health
from tracoco.methods.method import StepOutput, unlabelled_probabilities
from tracoco.methods.parts.student_teacher import (
    StudentTeacher,
    StudentTeacherConfig,
    mean_of_passes,
)


class UAMTConfig(StudentTeacherConfig):
    """Settings of `ua-mt`, by default those of the authors' release."""

    passes: PositiveInt = 8
    """Passes of the teacher whose mean tells how sure it is; as released. They differ by noise,
    and by dropout where the network has some."""
    first_threshold: float = Field(default=0.75, ge=0, le=1)
    """The teacher counts where its entropy is below this fraction of the largest there can be. The
    fraction rises to 1 along the run, both as released."""


class UAMT(StudentTeacher):
    """Mean Teacher that counts only where the teacher is sure.

    The release's figures for two classes are read as those for C: entropies are compared with
    log C, and the mean is over C classes. Its 2D script keeps log 2 and 2 with four classes.
    """

    Config = UAMTConfig
    config: UAMTConfig

    def forward(self, batch: Batch, step: int) -> StepOutput:
        """Supervised loss, and the squared distance to a sure teacher's probabilities.

        The student learns from one noisy pass; the mean of the others says only where.
        """
        unlabelled = slice(batch.labelled_count, None)
        crops, valid = batch.first.values[unlabelled], batch.first.valid[unlabelled]
        logits = self.student(batch.first.values).float()
        prediction = self.teacher(self.noisy(crops))
        certain = valid & (self.uncertainty(crops) < self.threshold(step))
        distance = mse_loss(logits[unlabelled], prediction, certain)
        terms = {
            "supervised": self.labelled_loss(logits, batch),
            "consistency": self.consistency_weight(step) * distance,
        }
        student = unlabelled_probabilities(batch, logits)
        return StepOutput(terms, (*student, prediction, certain))

    def uncertainty(self, crops: Tensor) -> Tensor:
        """Entropy of the teacher's mean prediction, from 0 to 1."""
        (mean,) = mean_of_passes(
            lambda noisy: (self.teacher(noisy),), crops, noise=self.noise, passes=self.config.passes
        )
        return normalised_entropy(mean)

    def threshold(self, step: int) -> float:
        """The fraction of the largest entropy that is not sure any more."""
        first = self.config.first_threshold
        return first + (1 - first) * sigmoid_rampup(step, self.total_steps)

    def health(self, output: StepOutput, batch: Batch) -> PseudoLabelHealth:
        """Also how much of the unlabelled crops the teacher is sure of."""
        student, teacher, certain = output.pseudo_labels
        valid = batch.first.valid[batch.labelled_count :]
        fraction = float(masked_mean(certain, valid))
        return pair_health(teacher, (student, teacher), valid, certain=fraction)
