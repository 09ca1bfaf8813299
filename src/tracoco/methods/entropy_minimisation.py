"""Entropy minimisation (Grandvalet and Bengio, NeurIPS 2004): be sure of what you say."""

from pydantic import Field, PositiveInt
from torch import Tensor

from tracoco.data.batch import Batch
from tracoco.losses.consistency import normalised_entropy
from tracoco.losses.weighting import masked_mean, sigmoid_rampup
from tracoco.methods.method import Method, NetworkFactory, RunFacts, labelled_loss
from tracoco.methods.parts.pseudo_label_statistics import predicted_fractions
from tracoco.settings import Settings


class EntropyMinimisationConfig(Settings):
    """Settings of `entropy-minimisation`, by default those of SSL4MIS, where it is a baseline."""

    unsupervised_weight: float = Field(default=0.2, ge=0)
    """Largest weight of the entropy; 0.1 there, beside half of the supervised loss."""
    rampup_steps: PositiveInt | None = None
    """Steps until the weight is at its largest; the whole run if not given."""


class EntropyMinimisation(Method):
    """One network that doubts less and less on unlabelled crops.

    SSL4MIS also lessens the entropy of the labelled crops, whose labels say more; the original
    does not, and neither does this.
    """

    Config = EntropyMinimisationConfig

    def __init__(
        self, config: EntropyMinimisationConfig, build_network: NetworkFactory, facts: RunFacts
    ) -> None:
        super().__init__()
        self.network = build_network()
        self.largest_weight = config.unsupervised_weight
        self.rampup_steps = config.rampup_steps or facts.total_steps
        self._answer: Tensor | None = None

    def forward(self, batch: Batch, step: int) -> dict[str, Tensor]:
        """Supervised, and the mean entropy of the voxels of unlabelled crops, at most 1."""
        unlabelled = slice(batch.labelled_count, None)
        logits = self.network(batch.first.values).float()
        probability = logits[unlabelled].softmax(dim=1)
        self._answer = probability.detach()
        entropy = masked_mean(normalised_entropy(probability), batch.first.valid[unlabelled])
        weight = self.largest_weight * sigmoid_rampup(step, self.rampup_steps)
        return {
            "supervised": labelled_loss(logits, batch),
            "entropy": weight * entropy,
        }

    def health(self, batch: Batch) -> dict[str, float]:
        """Class shares of the last answers, and their entropy as a share of the largest."""
        if self._answer is None:
            return {}
        valid = batch.first.valid[batch.labelled_count :]
        entropy = masked_mean(normalised_entropy(self._answer), valid)
        return predicted_fractions(self._answer, valid) | {"entropy": float(entropy)}
