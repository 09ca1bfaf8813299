"""DMD (Xie et al., MICCAI 2023): deep mutual distillation."""

from pydantic import Field
from torch import Tensor

from tracoco.config import Settings
from tracoco.data.batches import Batch
from tracoco.losses.soft_dice import soft_dice_loss
from tracoco.methods.method import NetworkFactory, RunFacts
from tracoco.methods.peers import Peers


class DMDConfig(Settings):
    """Settings of `dmd`, by default those of its release for 8 labelled scans.

    The release learns from labels by Dice alone; here the supervised loss is the same in every
    method. There is no ramp.
    """

    unsupervised_weight: float = Field(default=4.0, ge=0)
    """Weight of the distillation."""
    temperature: float = Field(default=2.0, gt=0)
    """Logits are divided by this before they are compared; the paper takes 1.93 with 16 labels."""


class DMD(Peers):
    """Two networks whose softened probabilities must be alike on all crops, labelled or not."""

    Config = DMDConfig

    def __init__(self, config: DMDConfig, build_network: NetworkFactory, facts: RunFacts) -> None:  # noqa: ARG002 - contract
        super().__init__(build_network(), build_network())
        self.config = config

    def forward(self, batch: Batch, step: int) -> dict[str, Tensor]:  # noqa: ARG002 - contract
        """Both learn from labels, and each is pulled to the other."""
        answers = self.training_pass(batch)
        first, second = ((each / self.config.temperature).softmax(dim=1) for each in answers)
        distance = soft_dice_loss(first, second, batch.first.inside)
        return {
            "supervised": self.supervised(batch, answers),
            "distillation": self.config.unsupervised_weight * distance,
        }
