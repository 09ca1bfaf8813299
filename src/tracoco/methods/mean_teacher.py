"""Mean Teacher (Tarvainen and Valpola, NeurIPS 2017): agree with the average of your past."""

from typing import Literal

from pydantic import Field, NonNegativeInt, PositiveInt
from torch import Tensor, nn

from tracoco.config import Settings
from tracoco.data.batches import Batch
from tracoco.losses.consistency import mse_loss
from tracoco.losses.supervised import supervised_loss
from tracoco.losses.weighting import most_likely, sigmoid_rampup
from tracoco.methods.ema import EmaTeacher, clipped_noise
from tracoco.methods.figures import class_shares, divergence_figures
from tracoco.methods.method import Method, NetworkFactory, RunFacts


class MeanTeacherConfig(Settings):
    """Settings of `mean-teacher`, by default those of its releases for 3D segmentation.

    Those releases halve the supervised loss; here it is the same in every method, so that a
    comparison has one thing less to explain.
    """

    unsupervised_weight: float = Field(default=0.1, ge=0)
    """Largest weight of the consistency with the teacher."""
    rampup_steps: PositiveInt | None = None
    """Steps until the weight is at its largest; the whole run if not given."""
    start_step: NonNegativeInt = 0
    """Learn from labels alone before this step; the 2D release waits for 1000."""
    decay: float = Field(default=0.99, ge=0, lt=1)
    """Share of the teacher that each step keeps, once its average has warmed up."""
    noise: float = Field(default=0.02, ge=0)
    """Deviation of the noise on the teacher's crops, as a fraction of the intensity range.

    The releases take a tenth of a scan's standard deviation, which is about a fifth of the range
    once a scan is clipped at its percentiles. The student sees its crops as they are.
    """
    on: Literal["unlabelled", "all"] = "unlabelled"
    """Crops that must be answered as the teacher does; the original takes all, the releases for
    medical images the unlabelled ones."""
    predict_with: Literal["student", "teacher"] = "student"
    """Every release tests the student."""


class MeanTeacher(Method):
    """A student, and a teacher that is its average and sees noisier crops."""

    Config = MeanTeacherConfig

    def __init__(
        self, config: MeanTeacherConfig, build_network: NetworkFactory, facts: RunFacts
    ) -> None:
        super().__init__()
        self.config = config
        self.student = build_network()
        predicts = config.predict_with == "teacher"
        self.teacher = EmaTeacher(self.student, config.decay, copy_buffers=predicts)
        self.noise = config.noise * facts.intensity_range
        self.rampup_steps = config.rampup_steps or facts.total_steps
        self._answers: tuple[Tensor, Tensor] | None = None

    def forward(self, batch: Batch, step: int) -> dict[str, Tensor]:
        """Supervised loss, and the squared distance to the teacher's probabilities."""
        labelled, inside = slice(batch.labelled_count), batch.first.inside
        logits = self.student(batch.first.values).float()
        compared = slice(batch.labelled_count if self.config.on == "unlabelled" else 0, None)
        answer = self.teacher(clipped_noise(batch.first.values[compared], self.noise))
        self._answers = (logits[compared].detach().softmax(dim=1), answer)
        distance = mse_loss(logits[compared], answer, inside[compared])
        return {
            "supervised": supervised_loss(logits[labelled], batch.labels, inside[labelled]),
            "consistency": self.consistency_weight(step) * distance,
        }

    def consistency_weight(self, step: int) -> float:
        """0 before the start, then along half a Gaussian that counts from step 0."""
        if step < self.config.start_step:
            return 0.0
        return self.config.unsupervised_weight * sigmoid_rampup(step, self.rampup_steps)

    def after_step(self, step: int) -> None:
        """Move the teacher."""
        self.teacher.update(step, self.student)

    def inference_network(self) -> nn.Module:
        """The student or the teacher, as the settings say."""
        return self.teacher.network if self.config.predict_with == "teacher" else self.student

    def trained_networks(self) -> list[nn.Module]:
        """The student alone."""
        return [self.student]

    def health(self, batch: Batch) -> dict[str, float]:
        """Class shares of the teacher's last labels, and how far the student is from them."""
        if self._answers is None:
            return {}
        count = len(batch.cases) - batch.labelled_count
        student, teacher = (answer[len(answer) - count :] for answer in self._answers)
        inside = batch.first.inside[batch.labelled_count :]
        shares = class_shares(most_likely(teacher), teacher.shape[1], inside)
        return shares | divergence_figures(student, teacher, inside)
