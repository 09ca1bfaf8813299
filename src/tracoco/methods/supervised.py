"""Supervised learning: the lower bound with few labels, the upper bound with all of them."""

from pydantic import Field

from tracoco.data.batch import Batch
from tracoco.methods.method import (
    Method,
    NetworkFactory,
    RunFacts,
    StepOutput,
    uniform_noise,
)
from tracoco.settings import Settings


class SupervisedConfig(Settings):
    """Settings of `supervised`."""

    noise: float = Field(default=0.05, ge=0)
    """Uniform noise on the crops, as a fraction of the intensity range; the same as TraCoCo's."""


class Supervised(Method):
    """One network and the labels."""

    Config = SupervisedConfig

    def __init__(
        self, config: SupervisedConfig, build_network: NetworkFactory, facts: RunFacts
    ) -> None:
        super().__init__()
        self.network = build_network()
        self.noise = config.noise * facts.intensity_range

    def forward(self, batch: Batch, step: int) -> StepOutput:
        """Cross-entropy and Dice on the labelled crops."""
        crops = batch.first.values[: batch.labelled_count]
        logits = self.network(uniform_noise(crops, self.noise)).float()
        return StepOutput({"supervised": self.labelled_loss(logits, batch)})
