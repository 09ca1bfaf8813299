"""Several decoders on one encoder, for methods whose decoders learn from each other."""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from tracoco.methods.method import NetworkFactory
from tracoco.networks.layers import Up
from tracoco.networks.network import Network, with_features
from tracoco.networks.stages import Decoder


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
        answer: Tensor = self.head(self.decoder(features)[-1])
        return answer


class SeveralDecoders(nn.Module):
    """An encoder and several decoders that differ in their first weights and in their way up.

    `first` is a whole network, the encoder with the first decoder, so that it can predict alone.
    """

    def __init__(self, who: str, build_network: NetworkFactory, ups: Sequence[Up]) -> None:
        """Put further decoders on a network.

        Args:
            who: the name of the method, for the error where a network has no decoder to exchange.
            build_network: is called once for each decoder, since each needs a fresh head.
            ups: how each decoder doubles the resolution.
        """
        super().__init__()
        first, *others = (with_features(build_network(), who) for _ in ups)
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
    """All decoders as one network: the softmax of its answer is the mean of their probabilities."""

    def __init__(self, decoders: SeveralDecoders) -> None:
        super().__init__()
        self.decoders = decoders

    def forward(self, crops: Tensor) -> Tensor:
        """Logits of each class, [B, classes, ...]."""
        answers = [logits.log_softmax(dim=1) for logits in self.decoders(crops)]
        return torch.stack(answers).logsumexp(dim=0)
