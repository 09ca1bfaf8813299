"""Mean Teacher (Tarvainen and Valpola, NeurIPS 2017): agree with the average of your past."""

from typing import Literal

from pydantic import NonNegativeInt

from tracoco.data.batch import Batch
from tracoco.losses.consistency import mse_loss
from tracoco.methods.method import StepOutput, unlabelled_probabilities
from tracoco.methods.parts.student_teacher import StudentTeacher, StudentTeacherConfig


class MeanTeacherConfig(StudentTeacherConfig):
    """Settings of `mean-teacher`, by default those of its releases for 3D segmentation."""

    start_step: NonNegativeInt = 0
    """Learn from labels alone before this step; the 2D release waits for 1000."""
    on: Literal["unlabelled", "all"] = "unlabelled"
    """Crops on which the student must agree with the teacher; the original takes all, the releases
    for medical images the unlabelled ones."""


class MeanTeacher(StudentTeacher):
    """A student, and a teacher that is its average and sees noisier crops."""

    Config = MeanTeacherConfig
    config: MeanTeacherConfig

    def forward(self, batch: Batch, step: int) -> StepOutput:
        """Supervised loss, and the squared distance to the teacher's probabilities."""
        count, valid = batch.labelled_count, batch.first.valid
        logits = self.student(batch.first.values).float()
        start = count if self.config.on == "unlabelled" else 0
        prediction = self.teacher(self.noisy(batch.first.values[start:]))
        distance = mse_loss(logits[start:], prediction, valid[start:])
        terms = {
            "supervised": self.labelled_loss(logits, batch),
            "consistency": self.consistency_weight(step) * distance,
        }
        student = unlabelled_probabilities(batch, logits)
        return StepOutput(terms, (*student, prediction[count - start :]))

    def consistency_weight(self, step: int) -> float:
        """0 before the start, then along half a Gaussian that counts from step 0."""
        return 0.0 if step < self.config.start_step else super().consistency_weight(step)
