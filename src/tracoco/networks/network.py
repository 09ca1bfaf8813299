"""What our networks offer, and how one is built by name."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from torch import Tensor, nn

from tracoco.errors import UserError
from tracoco.geometry import Index
from tracoco.networks import NETWORKS
from tracoco.networks.layers import Decoder, Encoder, Up


class Network(nn.Module, ABC):
    """An encoder, a decoder and a head, so that methods can reach in between."""

    dimensions: ClassVar[int]
    """2 for crops [B, C, X, Y], 3 for [B, C, X, Y, Z]."""

    def __init__(
        self, encoder: Encoder, decoder: Decoder, head: nn.Module, feature_channels: Sequence[int]
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder
        self.head = head
        self.feature_channels = tuple(feature_channels)

    @property
    def decoder_channels(self) -> tuple[int, ...]:
        """Channels of the decoder's maps, coarse to fine; the last is what `head` takes."""
        return self.feature_channels[-2::-1]

    @property
    def stride(self) -> Index:
        """What each axis of a crop must be divisible by."""
        return (2 ** len(self.decoder_channels),) * self.dimensions

    def encode(self, crops: Tensor) -> list[Tensor]:
        """Feature maps from fine to coarse, as wide as `feature_channels`."""
        features: list[Tensor] = self.encoder(crops)
        return features

    def decode(self, features: list[Tensor]) -> Tensor:
        """The decoder's last map, at the resolution of the crops."""
        return self.decode_levels(features)[-1]

    def decode_levels(self, features: list[Tensor]) -> list[Tensor]:
        """All maps of the decoder, coarse to fine, as wide as `decoder_channels`."""
        levels: list[Tensor] = self.decoder(features)
        return levels

    def forward(self, crops: Tensor) -> Tensor:
        """Logits of each class, [B, classes, ...]."""
        logits: Tensor = self.head(self.decode(self.encode(crops)))
        return logits

    @abstractmethod
    def make_decoder(self, up: Up) -> Decoder:
        """Another decoder for this encoder's features, freshly initialised."""


def with_features(network: nn.Module, who: str) -> Network:
    """The network as one whose feature maps can be reached, which the method `who` needs."""
    if not isinstance(network, Network):
        raise UserError(
            f"method '{who}' needs the feature maps of its network, which {type(network).__name__} "
            f"does not give; set network.name to one that does: {', '.join(NETWORKS)}"
        )
    return network
