"""The table of networks, and a network by its name: built with fresh weights, or refused.

Rows are plain facts, so that listing them imports no torch. Each is an encoder, a decoder and a
head; a name that begins with `monai:` is a network of MONAI.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from math import prod
from typing import TYPE_CHECKING, Any, Literal

from tracoco.errors import UserError, did_you_mean, raise_all
from tracoco.geometry import Strides, total_stride

if TYPE_CHECKING:
    from torch import nn

    from tracoco.networks.network import Network

PREFIX = "monai:"
"""What the names of networks of MONAI begin with."""


@dataclass(frozen=True, slots=True)
class NetworkFacts:
    """What is known of a network before it is built."""

    builders: dict[int, str]
    """`module:Class` in this folder, by number of dimensions."""
    halvings: int
    """Levels below the finest, each of half the resolution along every axis."""
    strided: bool = False
    """Whether it takes strides, which say otherwise."""

    def own_strides(self, dimensions: int) -> Strides:
        """Its levels where nothing else is asked for."""
        return ((2,) * dimensions,) * self.halvings


NETWORKS: dict[str, NetworkFacts] = {
    "vnet": NetworkFacts({3: "vnet:VNet"}, halvings=4),
    "unet": NetworkFacts({2: "unet:UNet2D", 3: "unet:UNet3D"}, halvings=4),
    "light-unet": NetworkFacts(
        {2: "light_unet:LightUNet2D", 3: "light_unet:LightUNet3D"}, halvings=3, strided=True
    ),
    "transunet": NetworkFacts({2: "transunet:TransUNet"}, halvings=4),
}


def network_facts(name: str, dimensions: int) -> NetworkFacts:
    """The row of a network, or an error that names those which can be used instead."""
    if name not in NETWORKS:
        known = (*NETWORKS, "monai:NAME")
        raise UserError(f"network '{name}' does not exist; {did_you_mean(name, known)}")
    if dimensions not in NETWORKS[name].builders:
        able = [f"'{other}'" for other, facts in NETWORKS.items() if dimensions in facts.builders]
        instead = f"use {' or '.join(able)}" if able else "crops have 2 or 3 axes"
        raise UserError(f"network '{name}' does not exist in {dimensions}D; {instead}")
    return NETWORKS[name]


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
) -> "nn.Module":
    """A freshly initialised network; torch's generator decides its weights.

    Args:
        name: a row of the table, or `monai:NAME`.
        channels: of a crop.
        classes: channels of the logits, the background among them.
        dimensions: 2 or 3.
        filters: channels of the finest level.
        options: further arguments of a MONAI network.
        crop: voxels per axis; a MONAI network is made to fit it and tried on it.
        strides: how it goes down its levels, for networks that have a choice; else its own.
        normalisation: of its maps, for networks that have a choice; else its own.
        decoder: its layers, for networks that have a choice; else its own.
    """
    if strides:
        check_strided(name, dimensions)
    if name.startswith(PREFIX):
        from tracoco.networks.from_monai import Needs, build_monai  # noqa: PLC0415 - needs torch

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
    choices: dict[str, Any] = {"strides": strides} if strides else {}
    if facts.strided:
        choices |= {"normalisation": normalisation, "decoder": decoder}
    network: Network = network_class(channels, classes, filters, **choices)
    return network


def is_strided(name: str, dimensions: int) -> bool:
    """Whether the strides of a network can be chosen."""
    return not name.startswith(PREFIX) and network_facts(name, dimensions).strided


def check_strided(name: str, dimensions: int) -> None:
    """Refuse strides for a network that goes down its levels in its own way."""
    if not is_strided(name, dimensions):
        able = [f"'{other}'" for other, facts in NETWORKS.items() if facts.strided]
        raise UserError(
            f"network '{name}' takes no network.strides: it goes down its levels in its own way; "
            f"leave them out, or use {' or '.join(able)}"
        )


def check_crop(name: str, crop: Sequence[int], strides: Strides = ()) -> None:
    """Refuse a crop that the network cannot halve as often as it must, before anything is built.

    A network of MONAI does not say what it needs: `build_network` tries the crop on it.
    """
    if name.startswith(PREFIX):
        from tracoco.networks.from_monai import monai_class  # noqa: PLC0415 - needs torch

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
