"""Supervised learning: the lower bound with few labels, the upper bound with all of them."""

from pydantic import Field
from torch import Tensor, nn

from tracoco.config import Settings
from tracoco.data.batches import Batch
from tracoco.losses.supervised import supervised_loss
from tracoco.methods.method import Method, NetworkFactory, RunFacts, uniform_noise


class SupervisedConfig(Settings):
    """Settings of `supervised`."""

    noise: float = Field(default=0.2, ge=0)
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

    def forward(self, batch: Batch, step: int) -> dict[str, Tensor]:  # noqa: ARG002 - contract
        """Cross-entropy and Dice on the labelled crops."""
        labelled = slice(batch.labelled_count)
        noisy = uniform_noise(batch.first.values[labelled], self.noise)
        logits = self.network(noisy).float()
        return {"supervised": supervised_loss(logits, batch.labels, batch.first.inside[labelled])}

    def inference_network(self) -> nn.Module:
        """The only one."""
        return self.network

    def trained_networks(self) -> list[nn.Module]:
        """The only one."""
        return [self.network]
