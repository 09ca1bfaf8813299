"""Several decoders on one encoder, for methods whose decoders or levels learn from each other."""

from collections.abc import Sequence
from typing import Annotated, Literal, cast

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from tracoco.data.batch import Batch
from tracoco.methods.health import PseudoLabelHealth, pair_health
from tracoco.methods.method import Method, NetworkFactory, RunFacts, StepOutput
from tracoco.networks.network import (
    CONVOLUTION,
    Decoder,
    Network,
    Up,
    ways_up,
    with_features,
)

Ways = Annotated[tuple[Up, ...], Field(min_length=2)] | Literal["own"]
"""How each decoder doubles the resolution: one by one, or as `ways_up` says."""


class Branch(nn.Module):
    """A further decoder on the features of a network, with a head of its own."""

    def __init__(self, decoder: Decoder, head: nn.Module) -> None:
        super().__init__()
        self.decoder = decoder
        self.head = head

    def forward(self, features: list[Tensor]) -> Tensor:
        """What the head makes of the decoder's last map.

        Args:
            features: the encoder's maps, fine to coarse.
        """
        prediction: Tensor = self.head(self.decoder(features)[-1])
        return prediction


class SeveralDecoders(nn.Module):
    """An encoder and several decoders that differ in their first weights and in their way up.

    `first` is a whole network, the encoder with the first decoder, so that it can predict alone.
    """

    def __init__(self, who: str, build_network: NetworkFactory, ups: Sequence[Up] | int) -> None:
        """Put further decoders on a network.

        Args:
            who: the name of the method, for the error where a network has no decoder to exchange.
            build_network: is called once for each decoder, since each needs a fresh head.
            ups: how each decoder doubles the resolution; or how many decoders there are, of which
                the first is like the network's own, as `ways_up` says.
        """
        super().__init__()
        count = ups if isinstance(ups, int) else len(ups)
        first, *others = (with_features(build_network(), who) for _ in range(count))
        if isinstance(ups, int):
            ups = ways_up(first, ups)
        first.decoder = first.make_decoder(ups[0])
        self.first = first
        self.others = nn.ModuleList(
            Branch(other.make_decoder(up), other.head)
            for other, up in zip(others, ups[1:], strict=True)
        )

    @property
    def branches(self) -> list[Network | Branch]:
        """Where each decoder and its head are, by the names `decoder` and `head`."""
        return [self.first, *cast("list[Branch]", list(self.others))]

    def forward(self, crops: Tensor) -> list[Tensor]:
        """Logits of each decoder, each [B, classes, ...] in float32."""
        features = self.first.encode(crops)
        return [branch.head(branch.decoder(features)[-1]).float() for branch in self.branches]


class MeanOfDecoders(nn.Module):
    """All decoders as one network: the softmax of its output is the mean of their probabilities."""

    def __init__(self, decoders: SeveralDecoders) -> None:
        super().__init__()
        self.decoders = decoders

    def forward(self, crops: Tensor) -> Tensor:
        """Logits of each class, [B, classes, ...]."""
        predictions = [logits.log_softmax(dim=1) for logits in self.decoders(crops)]
        return torch.stack(predictions).logsumexp(dim=0)


PredictWith = Literal["mean", "first"]


class SharedEncoder(Method):
    """One encoder, several decoders; all of them predict, or the first alone."""

    def __init__(self, decoders: SeveralDecoders, predict_with: PredictWith) -> None:
        super().__init__()
        self.decoders = decoders
        self.predict_with = predict_with

    def supervised(self, batch: Batch, logits: Sequence[Tensor]) -> Tensor:
        """What each decoder learns from labels, one number a decoder."""
        return torch.stack([self.labelled_loss(each, batch) for each in logits])

    def inference_network(self) -> nn.Module:
        """All decoders or the first alone, as the settings say."""
        if self.predict_with == "mean":
            return MeanOfDecoders(self.decoders)
        return self.decoders.first

    def predict_members(self, crops: Tensor) -> list[Tensor]:
        """The prediction, and the class probabilities of the first two decoders."""
        each = [logits.softmax(dim=1) for logits in self.decoders(crops)]
        mean = self.predict_with == "mean"
        return [torch.stack(each).mean(dim=0) if mean else each[0], *each[:2]]

    def trained_networks(self) -> list[nn.Module]:
        """The encoder with all its decoders."""
        return [self.decoders]

    def health(self, output: StepOutput, batch: Batch) -> PseudoLabelHealth:
        """Class fractions of the first decoder's labels, and how far the second agrees."""
        first, second = output.pseudo_labels
        return pair_health(first, (first, second), batch.first.valid[batch.labelled_count :])


def released_rampup(given: int | None, facts: RunFacts) -> int:
    """Steps of a ramp: those that are given, or as in the release of MC-Net.

    That is the whole run in 2D, and in 3D 6,000 of 15,000 steps.
    """
    fraction = {2: 1.0, 3: 0.4}[facts.dimensions]
    return given or max(1, round(fraction * facts.total_steps))


HEAD_SIZE = {2: 3, 3: 1}
"""Voxels along an axis of a coarse level's head, by number of dimensions, as in URPC's release."""


def level_heads(widths: Sequence[int], classes: int, dimensions: int) -> nn.ModuleList:
    """A head for each coarse level.

    Args:
        widths: channels of the levels' maps, coarse to fine.
        classes: channels of the logits.
        dimensions: 2 or 3.
    """
    size = HEAD_SIZE[dimensions]
    return nn.ModuleList(
        CONVOLUTION[dimensions](width, classes, kernel_size=size, padding=size // 2)
        for width in widths
    )


def at_crop_size(logits: Tensor, size: Sequence[int]) -> Tensor:
    """Logits of a coarse level in float32, resized to the crops.

    Linear, where URPC's 2D release takes the nearest voxel, which teaches jagged edges.
    """
    mode = {2: "bilinear", 3: "trilinear"}[len(size)]
    return F.interpolate(logits.float(), tuple(size), mode=mode)
