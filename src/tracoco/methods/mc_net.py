"""MC-Net (Wu et al., MICCAI 2021) and MC-Net+ (MedIA 2022): decoders that agree and are sure."""

from typing import ClassVar

from pydantic import Field, PositiveInt
from torch import Tensor

from tracoco.config import Settings
from tracoco.data.batches import Batch
from tracoco.losses.mutual import mutual_loss
from tracoco.losses.weighting import sigmoid_rampup
from tracoco.methods.decoders import SeveralDecoders
from tracoco.methods.method import NetworkFactory, RunFacts
from tracoco.methods.shared_encoder import PredictWith, SharedEncoder, released_rampup
from tracoco.networks.layers import Up

WAYS_UP: dict[int, tuple[Up, ...]] = {
    2: ("linear", "transpose", "nearest"),
    3: ("transpose", "linear", "nearest"),
}
"""How the release's decoders double the resolution, by number of dimensions."""
LARGEST_WEIGHT = {2: 0.2, 3: 2.0}
"""Twice the release's, by number of dimensions, since it learns from labels by half of a Dice loss:
in 3D by a factor, and in 2D because its Dice lacks the two in the numerator."""


class MCNetConfig(Settings):
    """Settings of `mc-net`, by default those of its release.

    The release learns from labels by half of a Dice loss, without cross-entropy. Here the
    supervised loss is the same in every method and its Dice is whole, so the consistency weighs
    twice as much.
    """

    unsupervised_weight: float | None = Field(default=None, ge=0)
    """Largest weight of the consistency; 2 in 3D and 0.2 in 2D if not given, where the release has
    1 and 0.1 beside half of a Dice loss."""
    rampup_steps: PositiveInt | None = None
    """Steps until the weight is at its largest; if not given, two fifths of the run in 3D, and all
    of it in 2D."""
    temperature: float = Field(default=0.1, gt=0)
    """Of the sharpening that makes a decoder's probabilities a target."""
    detached: bool = False
    """Whether a target teaches the other decoder alone. In the release the gradient runs through
    the sharpening as well, from which its numbers presumably come."""
    decoders: tuple[Up, ...] | None = Field(default=None, min_length=2)
    """How each decoder doubles the resolution. If not given, by a transposed convolution, then by
    linear interpolation; in 2D the other way round, as in the release."""
    predict_with: PredictWith = "mean"
    """The mean of the decoders, as in the paper, or the first alone, as in the release."""


class MCNet(SharedEncoder):
    """Two decoders; the sharpened answer of each is the target of the other."""

    Config = MCNetConfig
    name: ClassVar[str] = "mc-net"
    decoder_count: ClassVar[int] = 2

    def __init__(self, config: MCNetConfig, build_network: NetworkFactory, facts: RunFacts) -> None:
        ups = config.decoders or WAYS_UP[facts.dimensions][: self.decoder_count]
        super().__init__(SeveralDecoders(self.name, build_network, ups), config.predict_with)
        self.config = config
        weight = config.unsupervised_weight
        self.largest_weight = LARGEST_WEIGHT[facts.dimensions] if weight is None else weight
        self.rampup_steps = released_rampup(config.rampup_steps, facts)

    def forward(self, batch: Batch, step: int) -> dict[str, Tensor]:
        """Each decoder learns from labels; all crops, the labelled too, teach them to agree."""
        logits = self.decoders(batch.first.values)
        self.remember(batch, logits)
        distance = mutual_loss(
            logits,
            batch.first.inside,
            temperature=self.config.temperature,
            detached=self.config.detached,
        )
        weight = self.largest_weight * sigmoid_rampup(step, self.rampup_steps)
        return {
            "supervised": self.supervised(batch, logits).sum(),
            "consistency": weight * distance,
        }


class MCNetPlusConfig(MCNetConfig):
    """Settings of `mc-net-plus`; its release has those of `mc-net` but for these."""

    decoders: tuple[Up, ...] | None = Field(default=None, min_length=2)
    """As in `mc-net`, and a third decoder that takes the nearest voxel."""
    predict_with: PredictWith = "first"
    """The first decoder alone, as in the release."""


class MCNetPlus(MCNet):
    """MC-Net with three decoders, and so with six ordered pairs that must agree."""

    Config = MCNetPlusConfig
    name = "mc-net-plus"
    decoder_count = 3
