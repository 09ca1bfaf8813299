"""AC-MT (Xu et al., Medical Image Analysis 2023): an ambiguity-consensus mean teacher."""

from pydantic import Field, NonNegativeInt, PositiveInt
from torch import Tensor

from tracoco.data.batch import Batch
from tracoco.losses.consistency import mse_loss, normalised_entropy
from tracoco.losses.weighting import masked_mean, sigmoid_rampup
from tracoco.methods.health import PseudoLabelHealth, pair_health
from tracoco.methods.method import (
    NetworkFactory,
    RunFacts,
    StepOutput,
    unlabelled_probabilities,
)
from tracoco.methods.parts.student_teacher import (
    StudentTeacher,
    StudentTeacherConfig,
    mean_of_passes,
)
from tracoco.networks.statistics import frozen_statistics


class ACMTConfig(StudentTeacherConfig):
    """Settings of `ac-mt`, by default those of the release that goes by entropy."""

    rampup_steps: PositiveInt | None = None
    """Steps until the weight is at its largest; three quarters of the run if not given, as 6000 of
    the release's 8000."""
    first_threshold: float = Field(default=0.75, ge=0, le=1)
    """A voxel is ambiguous where the student's entropy is at least this fraction of the largest
    there can be; as released."""
    threshold_rise: float = Field(default=0.2, ge=-1, le=1)
    """What the fraction gains along the run. 0.2 is what the release runs, with -0.15, the paper's,
    beside it in a comment; with repeated passes it has 0.15."""
    passes: NonNegativeInt = 0
    """Noisy passes of the student whose mean tells what is ambiguous, 8 in that variant of the
    release; 0 goes by the one pass that learns."""


class ACMT(StudentTeacher):
    """Mean Teacher that counts only where the student is unsure: there is something to learn."""

    Config = ACMTConfig
    config: ACMTConfig

    def __init__(self, config: ACMTConfig, build_network: NetworkFactory, facts: RunFacts) -> None:
        super().__init__(config, build_network, facts)
        self.rampup_steps = config.rampup_steps or max(1, 3 * facts.total_steps // 4)

    def forward(self, batch: Batch, step: int) -> StepOutput:
        """Supervised loss, and the squared distance to the teacher where the student is unsure."""
        unlabelled = slice(batch.labelled_count, None)
        crops, valid = batch.first.values[unlabelled], batch.first.valid[unlabelled]
        logits = self.student(batch.first.values).float()
        prediction = self.teacher(self.noisy(crops))
        unsure = normalised_entropy(self._judged(crops, logits[unlabelled]))
        ambiguous = valid & (unsure >= self.threshold(step))
        distance = mse_loss(logits[unlabelled], prediction, ambiguous)
        terms = {
            "supervised": self.labelled_loss(logits, batch),
            "consistency": self.consistency_weight(step) * distance,
        }
        student = unlabelled_probabilities(batch, logits)
        return StepOutput(terms, (*student, prediction, ambiguous))

    def threshold(self, step: int) -> float:
        """The fraction of the largest entropy from which on a voxel is ambiguous."""
        rise = self.config.threshold_rise * sigmoid_rampup(step, self.total_steps)
        return self.config.first_threshold + rise

    def health(self, output: StepOutput, batch: Batch) -> PseudoLabelHealth:
        """Also how much of the unlabelled crops is ambiguous."""
        student, teacher, ambiguous = output.pseudo_labels
        valid = batch.first.valid[batch.labelled_count :]
        fraction = float(masked_mean(ambiguous, valid))
        return pair_health(teacher, (student, teacher), valid, ambiguous=fraction)

    def _judged(self, crops: Tensor, logits: Tensor) -> Tensor:
        """The student's probabilities that say what is ambiguous, without gradient."""
        if self.config.passes == 0:
            return logits.detach().softmax(dim=1)
        with frozen_statistics(self.student):
            (mean,) = mean_of_passes(
                lambda noisy: (self.student(noisy).float().softmax(dim=1),),
                crops,
                noise=self.noise,
                passes=self.config.passes,
            )
        return mean
