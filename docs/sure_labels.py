"""Sure labels: a network learns from its own labels of unlabelled crops, where it is sure."""

import torch.nn.functional as F
from pydantic import Field

from tracoco.cli import main
from tracoco.data.batch import Batch
from tracoco.losses.weighting import masked_mean, sigmoid_rampup
from tracoco.methods import MethodRow, register_method
from tracoco.methods.health import PseudoLabelHealth, predicted_fractions
from tracoco.methods.method import (
    Method,
    NetworkFactory,
    RunFacts,
    StepOutput,
    evaluating,
    uniform_noise,
)
from tracoco.settings import Settings


class SureLabelsConfig(Settings):
    """Settings of `sure-labels`; all are ours."""

    weight: float = Field(default=1.0, ge=0)
    """Largest weight of what unlabelled crops teach; it rises during the whole run."""
    threshold: float = Field(default=0.9, ge=0, le=1)
    """A voxel teaches where its largest class probability is at least this."""
    noise: float = Field(default=0.05, ge=0)
    """Uniform noise on the crops, as a fraction of the intensity range."""


class SureLabels(Method):
    """One network; its labels of clean crops teach it about noisy ones."""

    Config = SureLabelsConfig

    def __init__(
        self, config: SureLabelsConfig, build_network: NetworkFactory, facts: RunFacts
    ) -> None:
        super().__init__()
        self.config = config
        self.network = build_network()
        self.noise = config.noise * facts.intensity_range
        self.total_steps = facts.total_steps

    def forward(self, batch: Batch, step: int) -> StepOutput:
        """Weighted loss terms by name; their sum is minimised, and each is logged."""
        count, crops, valid = batch.labelled_count, batch.first.values, batch.first.valid
        with evaluating(self.network):
            clean = self.network(crops[count:]).float().softmax(dim=1)
        confidence, label = clean.max(dim=1)
        logits = self.network(uniform_noise(crops, self.noise)).float()
        semi_supervised = F.cross_entropy(logits[count:], label, reduction="none")
        sure = valid[count:] & (confidence >= self.config.threshold)
        weight = self.config.weight * sigmoid_rampup(step, self.total_steps)
        terms = {
            "supervised": self.labelled_loss(logits, batch),
            "sure": weight * masked_mean(semi_supervised, sure),
        }
        return StepOutput(terms, (clean,))

    def health(self, output: StepOutput, batch: Batch) -> PseudoLabelHealth:
        """How much of each class is among the pseudo-labels, so that a collapse is told."""
        valid = batch.first.valid[batch.labelled_count :]
        return PseudoLabelHealth(predicted_fractions(output.pseudo_labels[0], valid))


ROW = MethodRow(
    target=f"{__name__}:SureLabels",
    idea="Learn your own labels of unlabelled crops, where you are sure of them.",
    trained_by_unlabelled=("network",),
    family="pseudo-labels",
)
register_method("sure-labels", ROW)

if __name__ == "__main__":
    main()
