"""Methods with a single network, and several networks that predict as one."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from tracoco.methods.method import Method


class OneNetwork(Method):
    """The network that learns is the one that predicts; what else learns serves it alone."""

    network: nn.Module

    def inference_network(self) -> nn.Module:
        """The only one."""
        return self.network

    def trained_networks(self) -> list[nn.Module]:
        """The only one."""
        return [self.network]


class MeanOfNetworks(nn.Module):
    """Networks that answer together, so that they predict, and are saved, like one."""

    def __init__(self, networks: Iterable[nn.Module]) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)

    def forward(self, crops: Tensor) -> Tensor:
        """Logits of each class, [B, classes, ...]."""
        return torch.stack([network(crops).float() for network in self.networks]).mean(dim=0)
