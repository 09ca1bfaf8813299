"""Noisy student (Xie et al., CVPR 2020): learn from labels, and from those of an earlier round."""

from typing import ClassVar

from pydantic import Field

from tracoco.data.batch import IGNORED, Batch
from tracoco.errors import UserError
from tracoco.losses.supervised import supervised_loss
from tracoco.losses.weighting import masked_mean
from tracoco.methods.health import PseudoLabelHealth, class_fractions
from tracoco.methods.method import Method, NetworkFactory, RunFacts, StepOutput, uniform_noise
from tracoco.settings import Settings


class NoisyStudentConfig(Settings):
    """Settings of `noisy-student`, the student of `tracoco self-train`."""

    noise: float = Field(default=0.05, ge=0)
    """Uniform noise on the crops, as a fraction of the intensity range; the same as TraCoCo's."""
    pseudo_weight: float = Field(default=1.0, ge=0)
    """Of the loss of pseudo-labelled crops beside that of labelled ones; as published, both count
    alike."""


class NoisyStudent(Method):
    """One network, the labels, and pseudo-labels that no longer change."""

    Config = NoisyStudentConfig
    adaptive: ClassVar[bool] = False

    def __init__(
        self, config: NoisyStudentConfig, build_network: NetworkFactory, facts: RunFacts
    ) -> None:
        super().__init__()
        self.network = build_network()
        self.classes = facts.classes
        self.noise = config.noise * facts.intensity_range
        self._weight = config.pseudo_weight

    def forward(self, batch: Batch, step: int) -> StepOutput:
        """The supervised loss of the labelled crops, and the same of the pseudo-labelled ones."""
        if batch.pseudo_labels is None:
            raise UserError(
                "'noisy-student' learns from pseudo-labels of an earlier round, and there are "
                "none; run `tracoco self-train PROJECT`, which makes them"
            )
        logits = self.network(uniform_noise(batch.first.values, self.noise)).float()
        unlabelled = slice(batch.labelled_count, None)
        ignored = batch.pseudo_labels == IGNORED
        counted = batch.first.valid[unlabelled] & ~ignored
        labels = batch.pseudo_labels.masked_fill(ignored, 0)
        loss = supervised_loss(logits[unlabelled], labels, counted, self.loss)
        terms = {
            "supervised": self.labelled_loss(logits, batch),
            "pseudo_labels": self._weight * loss,
        }
        return StepOutput(terms, (labels, counted))

    def health(self, output: StepOutput, batch: Batch) -> PseudoLabelHealth:
        """Class fractions of the pseudo-labels, and how many of them count."""
        labels, counted = output.pseudo_labels
        likely = masked_mean(counted, batch.first.valid[batch.labelled_count :])
        fractions = class_fractions(labels, self.classes, counted)
        return PseudoLabelHealth(fractions, likely=float(likely))
