"""Entropy minimisation (Grandvalet and Bengio, NeurIPS 2004): be sure of what you say."""

from typing import Literal

from pydantic import Field, PositiveInt

from tracoco.data.batch import Batch
from tracoco.losses.consistency import normalised_entropy
from tracoco.losses.weighting import masked_mean, sigmoid_rampup
from tracoco.methods.health import PseudoLabelHealth, predicted_fractions
from tracoco.methods.method import Method, NetworkFactory, RunFacts, StepOutput
from tracoco.settings import Settings


class EntropyMinimisationConfig(Settings):
    """Settings of `entropy-minimisation`, by default those of SSL4MIS, where it is a baseline."""

    unsupervised_weight: float = Field(default=0.2, ge=0)
    """Largest weight of the entropy; 0.1 there, beside half of the supervised loss."""
    rampup_steps: PositiveInt | None = None
    """Steps until the weight is at its largest; the whole run if not given."""
    on: Literal["unlabelled", "all"] = "unlabelled"
    """Crops whose entropy is lessened: the unlabelled ones, as in the original, or all of them as
    in SSL4MIS, although labels say more."""


class EntropyMinimisation(Method):
    """One network that doubts less and less on unlabelled crops."""

    Config = EntropyMinimisationConfig

    def __init__(
        self, config: EntropyMinimisationConfig, build_network: NetworkFactory, facts: RunFacts
    ) -> None:
        super().__init__()
        self.network = build_network()
        self.config = config
        self.largest_weight = config.unsupervised_weight
        self.rampup_steps = config.rampup_steps or facts.total_steps

    def forward(self, batch: Batch, step: int) -> StepOutput:
        """Supervised, and the mean entropy of the voxels that count, at most 1."""
        count, valid = batch.labelled_count, batch.first.valid
        logits = self.network(batch.first.values).float()
        probability = logits.softmax(dim=1)
        start = count if self.config.on == "unlabelled" else 0
        entropy = masked_mean(normalised_entropy(probability[start:]), valid[start:])
        weight = self.largest_weight * sigmoid_rampup(step, self.rampup_steps)
        terms = {
            "supervised": self.labelled_loss(logits, batch),
            "entropy": weight * entropy,
        }
        return StepOutput(terms, (probability[count:].detach(),))

    def health(self, output: StepOutput, batch: Batch) -> PseudoLabelHealth:
        """Class fractions of the predictions, and their entropy as a fraction of the largest."""
        (probability,) = output.pseudo_labels
        valid = batch.first.valid[batch.labelled_count :]
        entropy = masked_mean(normalised_entropy(probability), valid)
        fractions = predicted_fractions(probability, valid)
        return PseudoLabelHealth(fractions, further={"entropy": float(entropy)})
