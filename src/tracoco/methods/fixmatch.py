"""FixMatch (Sohn et al., NeurIPS 2020), as UniMatch's authors carry it over to segmentation."""

from typing import Literal

import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from tracoco.data.batch import Batch
from tracoco.losses.weighting import masked_mean
from tracoco.methods.method import NetworkFactory, RunFacts, StepOutput
from tracoco.methods.parts.weak_to_strong import LabelledView, WeakToStrong, WeakToStrongConfig


class FixMatchConfig(WeakToStrongConfig):
    """Settings of `fixmatch`, by default those of the release for segmentation.

    That release learns from labels by cross-entropy alone; here the supervised loss is the same
    in every method.
    """

    unsupervised_weight: float = Field(default=1.0, ge=0)
    """Weight of what the strong view teaches, from the first step on; as in the release, where it
    counts as much as the cross-entropy of the labels."""
    loss: Literal["ce", "dice"] = "ce"
    """Cross-entropy of the labels that count, a mean over all voxels, as published. Or the Dice
    of all classes where labels count, as in `unimatch`."""


class FixMatch(WeakToStrong):
    """Sure labels of the crops as they are must hold for a strong view of them."""

    Config = FixMatchConfig
    config: FixMatchConfig

    def __init__(
        self, config: FixMatchConfig, build_network: NetworkFactory, facts: RunFacts
    ) -> None:
        super().__init__(config, build_network(), facts)

    def forward(self, batch: Batch, step: int) -> StepOutput:
        """Supervised, and what the labels of unlabelled crops teach about their strong view."""
        logits = self.network(batch.first.values).float()
        predictions = self.predictions(batch, logits)
        view = self.strong_labels(predictions)
        learnt = self._learn(self.network(view.crops).float(), view)
        terms = {
            "supervised": self.labelled_loss(logits, batch),
            "strong": self.config.unsupervised_weight * learnt,
        }
        return StepOutput(terms, (predictions.own,))

    def _learn(self, logits: Tensor, view: LabelledView) -> Tensor:
        if self.config.loss == "dice":
            return view.dice(logits)
        loss = F.cross_entropy(logits, view.label, reduction="none")
        return masked_mean(loss * view.sure, view.valid)
