"""MC-Net (Wu et al., MICCAI 2021) and MC-Net+ (MedIA 2022): decoders that agree and are sure."""

from collections.abc import Sequence
from typing import Literal, cast

import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from tracoco.data.batch import Batch
from tracoco.errors import UserError
from tracoco.losses.consistency import mutual_loss
from tracoco.losses.weighting import sigmoid_rampup
from tracoco.methods.method import NetworkFactory, RunFacts, StepOutput, unlabelled_probabilities
from tracoco.methods.parts.decoders import (
    PredictWith,
    SeveralDecoders,
    SharedEncoder,
    Ways,
    at_crop_size,
    level_heads,
    released_rampup,
)
from tracoco.networks.network import Up
from tracoco.settings import Settings

WAYS_UP: dict[int, tuple[Up, ...]] = {
    2: ("linear", "transpose", "nearest"),
    3: ("transpose", "linear", "nearest"),
}
"""How the release's decoders double the resolution, by number of dimensions: its 2D UNet and its
VNet have the first way themselves."""
LARGEST_WEIGHT = {2: 0.2, 3: 2.0}
"""Twice the release's, by number of dimensions, since it learns from labels by half of a Dice loss:
in 3D by a factor, and in 2D because its Dice lacks the two in the numerator."""
Scales = PositiveInt | Literal["all"]


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
    decoders: Ways | None = "own"
    """How each decoder doubles the resolution. `own`: the first as the network itself does, the
    second by a transposed convolution, or by linear interpolation if that is the first. Without a
    value as in the release, whatever the network: transposed first in 3D, linear first in 2D."""
    predict_with: PredictWith = "mean"
    """The mean of the decoders, as in the paper, or the first alone, as in the release."""


class ConsistencyWeight:
    """The weight of the consistency at each step."""

    def __init__(self, config: MCNetConfig, facts: RunFacts) -> None:
        weight = config.unsupervised_weight
        self._largest = LARGEST_WEIGHT[facts.dimensions] if weight is None else weight
        self._steps = released_rampup(config.rampup_steps, facts)

    def __call__(self, step: int) -> float:
        """It rises until it is at its largest."""
        return self._largest * sigmoid_rampup(step, self._steps)


def disagreement(logits: list[Tensor], batch: Batch, config: MCNetConfig) -> Tensor:
    """How far each decoder is from the sharpened predictions of the others, on all crops."""
    return mutual_loss(
        logits, batch.first.valid, temperature=config.temperature, detached=config.detached
    )


def chosen_ways(config: MCNetConfig, facts: RunFacts, count: int) -> Sequence[Up] | int:
    """What `SeveralDecoders` takes for so many decoders."""
    if config.decoders is None:
        return WAYS_UP[facts.dimensions][:count]
    return count if config.decoders == "own" else config.decoders


class MCNet(SharedEncoder):
    """Two decoders; the sharpened prediction of each is the target of the other."""

    Config = MCNetConfig

    def __init__(self, config: MCNetConfig, build_network: NetworkFactory, facts: RunFacts) -> None:
        ups = chosen_ways(config, facts, 2)
        super().__init__(SeveralDecoders("mc-net", build_network, ups), config.predict_with)
        self.weight = ConsistencyWeight(config, facts)
        self.config = config

    def forward(self, batch: Batch, step: int) -> StepOutput:
        """Each decoder learns from labels; all crops, the labelled too, teach them to agree."""
        logits = self.decoders(batch.first.values)
        terms = {
            "supervised": self.supervised(batch, logits).sum(),
            "consistency": self.weight(step) * disagreement(logits, batch, self.config),
        }
        return StepOutput(terms, unlabelled_probabilities(batch, *logits[:2]))


class MCNetPlusConfig(MCNetConfig):
    """Settings of `mc-net-plus`; its release has those of `mc-net` but for these."""

    decoders: Ways | None = "own"
    """As in `mc-net`, and a third decoder that takes the nearest voxel."""
    predict_with: PredictWith = "first"
    """The first decoder alone, as in the release."""
    scales: Scales = 1
    """Levels of each decoder that learn from labels and must agree, counted from the finest, or
    `all`. More than 1 is the paper's multi-scale variant, which was not released."""


class DecodersWithScales(SeveralDecoders):
    """Several decoders, each with a head on its finest levels; the finest alone predicts."""

    def __init__(
        self,
        who: str,
        build_network: NetworkFactory,
        ups: Sequence[Up] | int,
        *,
        classes: int,
        scales: Scales,
    ) -> None:
        """Put further decoders on a network, and heads on their coarse levels.

        Args:
            who: the name of the method, for errors.
            build_network: is called once for each decoder.
            ups: how each decoder doubles the resolution, or how many there are.
            classes: channels of the logits.
            scales: levels with a head, counted from the finest; with 1 there is no further head.
        """
        super().__init__(who, build_network, ups)
        widths, dimensions = self.first.decoder_channels, self.first.dimensions
        self.scales = len(widths) if scales == "all" else scales
        if self.scales > len(widths):
            raise UserError(
                f"method '{who}': scales is {self.scales}, but the decoders of this network have "
                f"{len(widths)} levels; set method.scales to at most {len(widths)}, or to all"
            )
        coarse = widths[-self.scales : -1]
        self.coarse_heads = nn.ModuleList(
            level_heads(coarse, classes, dimensions) for _ in self.branches
        )

    def at_scales(self, crops: Tensor) -> list[list[Tensor]]:
        """Logits of each decoder at each scale, coarse to fine, all at the size of the crops."""
        features = self.first.encode(crops)
        found: list[list[Tensor]] = [[] for _ in range(self.scales)]
        coarse_heads = cast("list[nn.ModuleList]", list(self.coarse_heads))
        for branch, heads in zip(self.branches, coarse_heads, strict=True):
            *coarse, fine = branch.decoder(features)[-self.scales :]
            for scale, (head, maps) in enumerate(zip(heads, coarse, strict=True)):
                found[scale].append(at_crop_size(head(maps), crops.shape[2:]))
            found[-1].append(branch.head(fine).float())
        return found


class MCNetPlus(SharedEncoder):
    """Three decoders, and so six ordered pairs that must agree."""

    Config = MCNetPlusConfig
    decoders: DecodersWithScales

    def __init__(
        self, config: MCNetPlusConfig, build_network: NetworkFactory, facts: RunFacts
    ) -> None:
        decoders = DecodersWithScales(
            "mc-net-plus",
            build_network,
            chosen_ways(config, facts, 3),
            classes=facts.classes,
            scales=config.scales,
        )
        super().__init__(decoders, config.predict_with)
        self.scales = decoders.scales
        self.weight = ConsistencyWeight(config, facts)
        self.config = config

    def forward(self, batch: Batch, step: int) -> StepOutput:
        """As in MC-Net; with several scales both terms are means over them."""
        crops = batch.first.values
        scales = [self.decoders(crops)] if self.scales == 1 else self.decoders.at_scales(crops)
        supervised = [self.supervised(batch, logits).sum() for logits in scales]
        distances = [disagreement(logits, batch, self.config) for logits in scales]
        terms = {
            "supervised": torch.stack(supervised).mean(),
            "consistency": self.weight(step) * torch.stack(distances).mean(),
        }
        return StepOutput(terms, unlabelled_probabilities(batch, *scales[-1][:2]))
