"""What our networks offer, and how one is built by name."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from importlib import import_module
from math import prod
from typing import Any, ClassVar, Literal

from torch import Tensor, nn

from tracoco.errors import UserError, raise_all
from tracoco.geometry import Index, Strides, total_stride
from tracoco.networks import NETWORKS, network_facts
from tracoco.networks.from_monai import PREFIX, Needs, build_monai, monai_class
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


def build_network(  # noqa: PLR0913 - each is given by its name
    name: str,
    *,
    channels: int,
    classes: int,
    dimensions: int,
    filters: int,
    options: Mapping[str, Any] | None = None,
    crop: Sequence[int] | None = None,
    strides: Strides = (),
    normalisation: Literal["batch", "instance"] = "batch",
    decoder: Literal["convolution", "pointwise"] = "convolution",
) -> nn.Module:
    """A freshly initialised network; torch's generator decides its weights.

    Args:
        name: a row of the table, or `monai:NAME`.
        channels: of a crop.
        classes: channels of the logits, the background among them.
        dimensions: 2 or 3.
        filters: channels of the finest level.
        options: further arguments of a MONAI network.
        crop: voxels per axis; a MONAI network is made to fit it and tried on it.
        strides: how it goes down its levels, for networks that can be told; else its own.
        normalisation: of its maps, for networks that can be told; else its own.
        decoder: its layers, for networks that can be told; else its own.
    """
    if strides:
        check_strided(name, dimensions)
    if name.startswith(PREFIX):
        if crop is None or len(crop) != dimensions:
            raise ValueError(f"'{name}' is built for a {dimensions}D crop, not for {crop}")
        return build_monai(name, Needs(channels, classes, filters, tuple(crop)), options or {})
    facts = network_facts(name, dimensions)
    if options:
        raise UserError(
            f"network '{name}' takes no network.options, but {', '.join(options)} was given; "
            f"they are for networks of MONAI, such as '{PREFIX}SegResNet'"
        )
    module, _, builder = facts.builders[dimensions].partition(":")
    network_class = getattr(import_module(f"tracoco.networks.{module}"), builder)
    told: dict[str, Any] = {"strides": strides} if strides else {}
    if facts.strided:
        told |= {"normalisation": normalisation, "decoder": decoder}
    network: Network = network_class(channels, classes, filters, **told)
    return network


def is_strided(name: str, dimensions: int) -> bool:
    """Whether a network can be told how to go down its levels."""
    return not name.startswith(PREFIX) and network_facts(name, dimensions).strided


def check_strided(name: str, dimensions: int) -> None:
    """Refuse strides for a network that goes down its levels in its own way."""
    if not is_strided(name, dimensions):
        able = [f"'{other}'" for other, facts in NETWORKS.items() if facts.strided]
        raise UserError(
            f"network '{name}' takes no network.strides: it goes down its levels in its own way; "
            f"leave them out, or use {' or '.join(able)}"
        )


def with_features(network: nn.Module, who: str) -> Network:
    """The network as one whose feature maps can be reached, which the method `who` needs."""
    if not isinstance(network, Network):
        raise UserError(
            f"method '{who}' needs the feature maps of its network, which {type(network).__name__} "
            f"does not give; set network.name to one that does: {', '.join(NETWORKS)}"
        )
    return network


def check_crop(name: str, crop: Sequence[int], strides: Strides = ()) -> None:
    """Refuse a crop that the network cannot halve as often as it must, before anything is built.

    A network of MONAI does not say what it needs: `build_network` tries the crop on it.
    """
    if name.startswith(PREFIX):
        monai_class(name)
        return
    facts = network_facts(name, len(crop))
    steps = total_stride(strides or facts.own_strides(len(crop)))
    raise_all(
        [
            f"crop {tuple(crop)} cannot be halved {step.bit_length() - 1} times on axis {axis}, "
            f"as '{name}' does; {_nearest_sizes(size, step)}"
            for axis, (size, step) in enumerate(zip(crop, steps, strict=True))
            if size % step
        ]
    )
    if prod(crop) == prod(steps):
        raise UserError(
            f"crop {tuple(crop)} leaves '{name}' a single voxel at its coarsest level, too few to "
            f"normalise; make one axis at least {2 * max(steps)}"
        )


def _nearest_sizes(size: int, stride: int) -> str:
    below = size // stride * stride
    if below == 0:
        return f"the nearest size that can is {stride}"
    return f"the nearest sizes that can are {below} and {below + stride}"
