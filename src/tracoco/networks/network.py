"""What our networks are made of: layers by number of dimensions, encoder, decoder, and `Network`.

The maps of a level are kept for the backward pass, or computed again (activation checkpointing).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint, noop_context_fn

from tracoco.errors import UserError
from tracoco.geometry import Size
from tracoco.networks import NETWORKS
from tracoco.networks.statistics import RepeatedPass

Up = Literal["transpose", "linear", "nearest"]

CONVOLUTION: dict[int, Callable[..., nn.Module]] = {2: nn.Conv2d, 3: nn.Conv3d}
TRANSPOSED: dict[int, Callable[..., nn.Module]] = {2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}
CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}
"""The layout with channels last, by number of axes of maps and of kernels."""


def interpolate(up: Up, dimensions: int, *, align_corners: bool = False) -> nn.Module:
    """Double the resolution without weights, by "linear" or "nearest" interpolation."""
    if up == "nearest":
        return nn.Upsample(scale_factor=2, mode="nearest")
    mode = {2: "bilinear", 3: "trilinear"}[dimensions]
    return nn.Upsample(scale_factor=2, mode=mode, align_corners=align_corners)


def concatenate(skip: Tensor, risen: Tensor) -> Tensor:
    """Channels of the encoder's map, then those that come up from the level below."""
    return torch.cat([skip, risen], dim=1)


def level_widths(filters: int, levels: int) -> tuple[int, ...]:
    """Channels of each level, fine to coarse: twice as many at half the resolution."""
    return tuple(filters * 2**level for level in range(levels))


def add(skip: Tensor, risen: Tensor) -> Tensor:
    """Sum of the encoder's map and the one that comes up from the level below.

    The latter is nobody else's: where no gradient needs it as it was, its memory is taken.
    """
    return skip + risen if torch.is_grad_enabled() else risen.add_(skip)


def recomputed(owner: nn.Module, compute: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
    """What `compute` makes of the inputs, of which only inputs and result are kept.

    The backward pass calls it again, with the same random numbers and in the same precision.

    Args:
        owner: the module whose layers `compute` uses.
        compute: the layers, as a function.
        inputs: what the layers take.
    """
    if not (owner.training and torch.is_grad_enabled()):
        return compute(*inputs)  # nothing is kept anyway, or not by a training

    def contexts() -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
        return nullcontext(), RepeatedPass(owner)

    # A compiled pass counts statistics once by itself, and cannot look into our contexts.
    chosen = noop_context_fn if torch.compiler.is_compiling() else contexts
    result: Tensor = checkpoint(compute, *inputs, use_reentrant=False, context_fn=chosen)
    return result


class Recomputed:
    """A network's forward pass as a whole, for networks whose levels cannot be reached."""

    def __init__(self, network: nn.Module) -> None:
        self.network = network
        self.compute = network.forward

    def __call__(self, crops: Tensor) -> Tensor:
        """The logits; all maps are made again when their gradient is asked for."""
        return recomputed(self.network, self.compute, crops)


class Stages(nn.Module):
    """Levels of a network, whose inner maps are kept for the backward pass or made again."""

    checkpointing = False
    """Keep the map behind each level alone: less memory, and each level is computed twice."""

    def run(self, compute: Callable[..., Tensor], *maps: Tensor) -> Tensor:
        """One level."""
        return recomputed(self, compute, *maps) if self.checkpointing else compute(*maps)


class Encoder(Stages):
    """Stages one after the other; each but the first halves the resolution."""

    def __init__(self, stages: Iterable[nn.Module]) -> None:
        super().__init__()
        self.stages = nn.ModuleList(stages)

    def forward(self, crops: Tensor) -> list[Tensor]:
        """The map behind each stage, fine to coarse."""
        maps = [crops]
        for stage in self.stages:
            maps.append(self.run(stage, maps[-1]))
        return maps[1:]


class Decoder(Stages):
    """From the coarsest map up: double, merge with the encoder's map of that size, convolve."""

    def __init__(
        self,
        ups: Iterable[nn.Module],
        blocks: Iterable[nn.Module],
        *,
        merge: Callable[[Tensor, Tensor], Tensor],
        dropout: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.ups = nn.ModuleList(ups)
        self.blocks = nn.ModuleList(blocks)
        self.merge = merge
        self.dropout = dropout or nn.Identity()

    def forward(self, features: list[Tensor]) -> list[Tensor]:
        """The decoder's maps, coarse to fine; the last has the resolution of the crops.

        Args:
            features: the encoder's maps, fine to coarse.
        """
        maps = [features[-1]]
        skips = reversed(features[:-1])
        for level, (*_, skip) in enumerate(zip(self.ups, self.blocks, skips, strict=True)):
            maps.append(self.run(partial(self._rise, level), maps[-1], skip))
        return maps[1:]

    def _rise(self, level: int, below: Tensor, skip: Tensor) -> Tensor:
        risen: Tensor = self.blocks[level](self.merge(skip, self.ups[level](below)))
        return self.dropout(risen) if level == len(self.blocks) - 1 else risen


class Network(nn.Module, ABC):
    """An encoder, a decoder and a head, so that methods can reach in between."""

    dimensions: ClassVar[int]
    """2 for crops [B, C, X, Y], 3 for [B, C, X, Y, Z]."""
    own_up: ClassVar[Up] = "linear"
    """How its own decoder doubles the resolution."""

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
    def stride(self) -> Size:
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


def ways_up(network: Network, count: int) -> tuple[Up, ...]:
    """The network's own way first, then the others in the order of MC-Net's release.

    With VNet and the 2D UNet that is what MC-Net's release has, whose first decoder is the one of
    the plain network. On a light UNet, which interpolates, a transposed first decoder cost
    `mc-net-plus` a point of Dice with `network.decoder: pointwise`, and 0.1 and 0.3 points with the
    default decoder (hippocampus, 10 labels, two seeds).
    """
    every: tuple[Up, ...] = ("transpose", "linear", "nearest")
    return (network.own_up, *(up for up in every if up != network.own_up))[:count]
