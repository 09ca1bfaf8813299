"""The table of networks: plain facts, so that listing them imports no torch.

Each row is an encoder, a decoder and a head, built by name with `network.build_network`; a name
that begins with `monai:` is a network of MONAI.
"""

from dataclasses import dataclass

from tracoco.errors import UserError, did_you_mean
from tracoco.geometry import Strides


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
