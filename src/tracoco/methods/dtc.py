"""DTC (Luo et al., AAAI 2021): dual-task consistency of a mask and a signed distance map."""

from pydantic import Field
from torch import Tensor

from tracoco.data.batch import Batch
from tracoco.losses.weighting import masked_mean
from tracoco.methods.method import NetworkFactory, RunFacts, StepOutput
from tracoco.methods.parts.two_heads import TwoHeads, TwoHeadsConfig


class DTCConfig(TwoHeadsConfig):
    """Settings of `dtc`, by default those of its release for the left atrium."""

    unsupervised_weight: float = Field(default=1.0, ge=0)
    """Largest weight of the agreement of both heads, on labelled and unlabelled crops."""
    steepness: float = Field(default=1500.0, gt=0)
    """How sharply a distance map becomes a mask: only where it is within a few thousandths of 0
    does the agreement move it."""


class DTC(TwoHeads):
    """The mask that the distances enclose must be the mask of the other head."""

    Config = DTCConfig
    labelled_terms = frozenset({"supervised", "signed_distance"})

    def __init__(self, config: DTCConfig, build_network: NetworkFactory, facts: RunFacts) -> None:
        super().__init__(config, build_network, facts, "dtc")
        self._steepness = config.steepness

    def forward(self, batch: Batch, step: int) -> StepOutput:
        """What labels teach, and the agreement of both heads on all crops."""
        logits, maps = self.logits_and_distances(batch.first.values)
        apart = dual_task_loss(logits, maps, batch.first.valid, steepness=self._steepness)
        agreement = {"dual_task": self.unsupervised_weight(step) * apart}
        terms = self.learn_labels(batch, logits, maps) | agreement
        return StepOutput(terms, (logits.detach(), maps.detach()))


def dual_task_loss(logits: Tensor, maps: Tensor, valid: Tensor, *, steepness: float) -> Tensor:
    """Squared difference of two masks, mean over voxels and foreground classes.

    Args:
        logits: of the mask, [B, C, ...].
        maps: signed distances, [B, C - 1, ...], which enclose a mask where they are negative.
        valid: false where the crops are padding, [B, ...].
        steepness: of the sigmoid that makes a mask of distances. Both sides have a gradient.
    """
    enclosed = (-steepness * maps).sigmoid()
    difference = enclosed - logits.softmax(dim=1)[:, 1:]
    return masked_mean(difference.square().mean(dim=1), valid)
