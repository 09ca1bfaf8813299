"""A small network that turns the map of one class into a vector (SCC)."""

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tracoco.networks.layers import CONVOLUTION

WIDTHS = (1, 64, 128, 256, 512)
SMALLEST = 2 ** (len(WIDTHS) - 1)
"""Voxels along an axis that can be halved so often."""


class ClassProjector(nn.Module):
    """Four convolutions that halve the resolution, a mean over space, two linear layers."""

    def __init__(self, classes: int, dimensions: int) -> None:
        super().__init__()
        convolution = CONVOLUTION[dimensions]
        dropout = {2: nn.Dropout2d, 3: nn.Dropout3d}[dimensions]
        layers: list[nn.Module] = []
        for narrow, wide in pairwise(WIDTHS):
            layers += [convolution(narrow, wide, kernel_size=4, stride=2, padding=1)]
            layers += [nn.LeakyReLU(0.2, inplace=True), dropout(0.5)]
        self.convolutions = nn.Sequential(*layers[:-1])
        self.vectors = nn.Sequential(
            nn.Linear(WIDTHS[-1], WIDTHS[-1]), nn.Linear(WIDTHS[-1], classes)
        )

    def forward(self, logits: Tensor, inside: Tensor) -> Tensor:
        """A vector that sums to 1 for each class of each crop, [B, C, classes].

        Args:
            logits: of the crops, [B, C, ...]; each class is looked at by itself.
            inside: false where the crops are padding, [B, ...]; there the maps are taken as 0, as
                around the crops.
        """
        maps = (logits * inside.unsqueeze(1)).flatten(0, 1).unsqueeze(1)
        features = self.convolutions(F.pad(maps, _missing(maps)))
        vectors: Tensor = self.vectors(features.flatten(2).mean(dim=2)).float()
        return torch.unflatten(vectors.softmax(dim=1), 0, logits.shape[:2])


def _missing(maps: Tensor) -> list[int]:
    """Voxels that axes lack to be halved, last axis first, as `F.pad` wants them."""
    return [
        count for length in reversed(maps.shape[2:]) for count in (0, max(0, SMALLEST - length))
    ]
