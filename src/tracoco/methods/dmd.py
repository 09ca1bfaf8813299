"""DMD (Xie et al., MICCAI 2023): deep mutual distillation."""

from pydantic import Field
from torch import Tensor

from tracoco.data.batch import Batch
from tracoco.methods.method import (
    NetworkFactory,
    RunFacts,
    StepOutput,
    unlabelled_probabilities,
)
from tracoco.methods.parts.co_training import Peers
from tracoco.settings import Settings


def soft_dice_loss(first: Tensor, second: Tensor, valid: Tensor) -> Tensor:
    """1 - Dice of each foreground class over all crops together, then the mean of the classes.

    The denominators are squared sums, so that it is 0 where both predictions are the same, however
    unsure. It is the same the other way round, and its gradient reaches both.

    Args:
        first: probabilities, [B, C, ...].
        second: others of the same voxels.
        valid: false where the crops are padding, [B, ...].
    """
    smooth = 1e-5
    axes = [0, *range(2, first.ndim)]
    weight = valid.unsqueeze(1)
    first, second = first[:, 1:] * weight, second[:, 1:] * weight
    shared = (first * second).sum(axes)
    total = (first.square() + second.square()).sum(axes)
    return (1 - (2 * shared + smooth) / (total + smooth)).mean()


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

    def __init__(self, config: DMDConfig, build_network: NetworkFactory, facts: RunFacts) -> None:
        super().__init__(build_network(), build_network())
        self.config = config

    def forward(self, batch: Batch, step: int) -> StepOutput:
        """Both learn from labels, and each is pulled to the other."""
        predictions = self.logits(batch)
        first, second = ((each / self.config.temperature).softmax(dim=1) for each in predictions)
        distance = soft_dice_loss(first, second, batch.first.valid)
        terms = {
            "supervised": self.labelled_losses(predictions, batch),
            "distillation": self.config.unsupervised_weight * distance,
        }
        return StepOutput(terms, unlabelled_probabilities(batch, *predictions))
