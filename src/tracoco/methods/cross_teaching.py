"""Cross teaching between a CNN and a transformer (Luo et al., MIDL 2022)."""

from typing import Any

import torch
from pydantic import Field, PositiveInt

from tracoco.data.batch import Batch
from tracoco.losses.supervised import class_dice_losses
from tracoco.losses.weighting import most_likely, sigmoid_rampup
from tracoco.methods.method import (
    NetworkFactory,
    RunFacts,
    StepOutput,
    unlabelled_probabilities,
)
from tracoco.methods.parts.co_training import Peers, second_network
from tracoco.settings import Settings


class CrossTeachingConfig(Settings):
    """Settings of `cross-teaching`, by default those of its release."""

    second: str = "monai:UNETR"
    """The second network, by a name as in `network.name`: a transformer, where the run's own
    network is a CNN. The paper's is Swin-Unet with weights from ImageNet, for slices of 224 x 224
    alone; UNETR takes 2D and 3D crops with axes divisible by 16."""
    second_options: dict[str, Any] = Field(default_factory=dict)
    """Further arguments of the second network, as in `network.options`."""
    unsupervised_weight: float = Field(default=0.2, ge=0)
    """Largest weight of what the networks teach each other; 0.1 in the release, beside half of
    the supervised loss."""
    rampup_steps: PositiveInt | None = None
    """Steps until the weight is at its largest; the whole run if not given."""


class CrossTeaching(Peers):
    """Two networks of different kinds; each one's hard labels teach the other by their Dice."""

    Config = CrossTeachingConfig

    def __init__(
        self, config: CrossTeachingConfig, build_network: NetworkFactory, facts: RunFacts
    ) -> None:
        first = build_network()
        super().__init__(first, second_network(build_network, config.second, config.second_options))
        self.largest_weight = config.unsupervised_weight
        self.rampup_steps = config.rampup_steps or facts.total_steps

    def forward(self, batch: Batch, step: int) -> StepOutput:
        """Both learn from labels, and on unlabelled crops from each other's labels."""
        unlabelled = slice(batch.labelled_count, None)
        predictions = self.logits(batch)
        labels = [most_likely(logits[unlabelled].detach()) for logits in predictions]
        valid = batch.first.valid[unlabelled]
        losses = [
            class_dice_losses(logits[unlabelled], peer, valid).mean()
            for logits, peer in zip(predictions, reversed(labels), strict=True)
        ]
        weight = self.largest_weight * sigmoid_rampup(step, self.rampup_steps)
        terms = {
            "supervised": self.labelled_losses(predictions, batch),
            "dice": weight * torch.stack(losses).sum(),
        }
        return StepOutput(terms, unlabelled_probabilities(batch, *predictions))
