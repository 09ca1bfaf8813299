"""A student that learns by gradient, and a teacher that is its running average."""

from typing import Literal

from pydantic import Field, PositiveInt
from torch import Tensor, nn

from tracoco.config import Settings
from tracoco.data.batches import Batch
from tracoco.losses.weighting import sigmoid_rampup
from tracoco.methods.ema import EmaTeacher, clipped_noise
from tracoco.methods.figures import answer_shares, divergence_figures
from tracoco.methods.method import Method, NetworkFactory, RunFacts


class StudentTeacherConfig(Settings):
    """What the methods around an averaged teacher share, by default as in their releases.

    Those releases halve the supervised loss. Here it is whole, as in every method, so that a
    comparison has one thing less to explain; weights beside it are twice as large as theirs.
    """

    unsupervised_weight: float = Field(default=0.2, ge=0)
    """Largest weight of the consistency with the teacher; 0.1 in the releases, beside half of the
    supervised loss."""
    rampup_steps: PositiveInt | None = None
    """Steps until the weight is at its largest; the whole run if not given."""
    decay: float = Field(default=0.99, ge=0, lt=1)
    """Share of the teacher that each step keeps, once its average has warmed up."""
    noise: float = Field(default=0.02, ge=0)
    """Deviation of the noise on the teacher's crops, as a fraction of the intensity range.

    The releases take a tenth of a scan's standard deviation, which is about a fifth of the range
    once a scan is clipped at its percentiles. The student sees its crops as they are.
    """
    predict_with: Literal["student", "teacher"] = "student"
    """Every release tests the student."""


class StudentTeacher(Method):
    """What all of them do alike; what the student must agree on is each one's own."""

    config: StudentTeacherConfig
    student: nn.Module

    def __init__(
        self, config: StudentTeacherConfig, build_network: NetworkFactory, facts: RunFacts
    ) -> None:
        super().__init__()
        self.config = config
        self.student = build_network()
        predicts = config.predict_with == "teacher"
        self.teacher = EmaTeacher(self.student, config.decay, copy_buffers=predicts)
        self.noise = config.noise * facts.intensity_range
        self.rampup_steps = config.rampup_steps or facts.total_steps
        self.total_steps = facts.total_steps
        self._answers: tuple[Tensor, Tensor] | None = None
        self._inside: Tensor | None = None

    def noisy(self, crops: Tensor) -> Tensor:
        """Crops as the teacher sees them."""
        return clipped_noise(crops, self.noise)

    def consistency_weight(self, step: int) -> float:
        """Along half a Gaussian up to the largest."""
        return self.config.unsupervised_weight * self.rampup(step)

    def rampup(self, step: int) -> float:
        """How far the weights of the unlabelled crops have risen, up to 1."""
        return sigmoid_rampup(step, self.rampup_steps)

    def remember(self, logits: Tensor, answer: Tensor, inside: Tensor) -> None:
        """Keep for `health` what student and teacher said of the same unlabelled crops."""
        self._answers = (logits.detach().softmax(dim=1), answer)
        self._inside = inside

    def after_step(self, step: int) -> None:
        """Move the teacher."""
        self.teacher.update(step, self.student)

    def inference_network(self) -> nn.Module:
        """The student or the teacher, as the settings say."""
        return self.teacher.network if self.config.predict_with == "teacher" else self.student

    def trained_networks(self) -> list[nn.Module]:
        """The student alone."""
        return [self.student]

    def health(self, batch: Batch) -> dict[str, float]:  # noqa: ARG002 - part of the contract
        """Class shares of the teacher's last labels, and how far the student is from them."""
        if self._answers is None or self._inside is None:
            return {}
        student, teacher = self._answers
        shares = answer_shares(teacher, self._inside)
        return shares | divergence_figures(student, teacher, self._inside)
