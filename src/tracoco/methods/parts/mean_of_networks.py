"""Several networks that predict as one: the mean of their logits."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn


class MeanOfNetworks(nn.Module):
    """Networks that answer together, so that they predict, and are saved, like one."""

    def __init__(self, networks: Iterable[nn.Module]) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)

    def forward(self, crops: Tensor) -> Tensor:
        """Logits of each class, [B, classes, ...]."""
        return torch.stack([network(crops).float() for network in self.networks]).mean(dim=0)
