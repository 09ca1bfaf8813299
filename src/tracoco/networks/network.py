"""What every network offers, and the table from which one is built by name."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from math import prod
from typing import ClassVar

from torch import Tensor, nn

from tracoco.config import did_you_mean
from tracoco.errors import UserError, raise_all
from tracoco.networks.layers import Up
from tracoco.networks.stages import Decoder, Encoder


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
    def stride(self) -> int:
        """What every axis of a crop must be divisible by."""
        return int(2 ** (len(self.feature_channels) - 1))

    def encode(self, crops: Tensor) -> list[Tensor]:
        """Feature maps from fine to coarse, as wide as `feature_channels`."""
        features: list[Tensor] = self.encoder(crops)
        return features

    def decode(self, features: list[Tensor]) -> Tensor:
        """The decoder's last map, at the resolution of the crops."""
        return self.decode_levels(features)[-1]

    def decode_levels(self, features: list[Tensor]) -> list[Tensor]:
        """All maps of the decoder, coarse to fine."""
        levels: list[Tensor] = self.decoder(features)
        return levels

    def forward(self, crops: Tensor) -> Tensor:
        """Logits of each class, [B, classes, ...]."""
        logits: Tensor = self.head(self.decode(self.encode(crops)))
        return logits

    @abstractmethod
    def make_decoder(self, up: Up) -> Decoder:
        """Another decoder for this encoder's features, freshly initialised."""


@dataclass(frozen=True, slots=True)
class NetworkFacts:
    """What is known of a network before it is built."""

    builders: dict[int, str]
    """`module:Class` in this folder, by number of dimensions."""
    halvings: int

    @property
    def stride(self) -> int:
        """What every axis of a crop must be divisible by."""
        return int(2**self.halvings)


NETWORKS: dict[str, NetworkFacts] = {
    "vnet": NetworkFacts({3: "vnet:VNet"}, halvings=4),
    "unet": NetworkFacts({2: "unet:UNet2D", 3: "unet:UNet3D"}, halvings=4),
    "light-unet": NetworkFacts(
        {2: "light_unet:LightUNet2D", 3: "light_unet:LightUNet3D"}, halvings=3
    ),
}


def build_network(
    name: str, *, channels: int, classes: int, dimensions: int, filters: int
) -> Network:
    """A freshly initialised network of the table; torch's generator decides its weights."""
    module, _, builder = _facts(name, dimensions).builders[dimensions].partition(":")
    network_class = getattr(import_module(f"tracoco.networks.{module}"), builder)
    network: Network = network_class(channels, classes, filters)
    return network


def check_crop(name: str, crop: Sequence[int]) -> None:
    """Refuse a crop that the network cannot halve as often as it must, before anything is built."""
    facts = _facts(name, len(crop))
    raise_all(
        [
            f"crop {tuple(crop)} cannot be halved {facts.halvings} times on axis {axis}, "
            f"as '{name}' does; {_nearest_sizes(size, facts.stride)}"
            for axis, size in enumerate(crop)
            if size % facts.stride
        ]
    )
    if prod(crop) == facts.stride ** len(crop):
        raise UserError(
            f"crop {tuple(crop)} leaves '{name}' a single voxel at its coarsest level, too few to "
            f"normalise; make one axis at least {2 * facts.stride}"
        )


def _facts(name: str, dimensions: int) -> NetworkFacts:
    if name not in NETWORKS:
        raise UserError(f"network '{name}' does not exist; {did_you_mean(name, NETWORKS)}")
    if dimensions not in NETWORKS[name].builders:
        able = [f"'{other}'" for other, facts in NETWORKS.items() if dimensions in facts.builders]
        instead = f"use {' or '.join(able)}" if able else "crops have 2 or 3 axes"
        raise UserError(f"network '{name}' does not exist in {dimensions}D; {instead}")
    return NETWORKS[name]


def _nearest_sizes(size: int, stride: int) -> str:
    below = size // stride * stride
    if below == 0:
        return f"the nearest size that can is {stride}"
    return f"the nearest sizes that can are {below} and {below + stride}"
