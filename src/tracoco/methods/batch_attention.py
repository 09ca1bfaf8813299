"""Attention of CAML: voxels of a crop look at each other, and crops of a batch do."""

import math

from torch import Tensor, nn

from tracoco.networks.network import Network

LEVEL = 3
"""The encoder's fourth, at an eighth of the resolution, as released."""
HEADS = 4
DROPOUT = 0.5


class BatchAttention(nn.Module):
    """Two transformer layers: one over the voxels of a crop, one over the crops at a voxel.

    Only while training: at test time an answer must not depend on what else is in the batch.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        heads = math.gcd(HEADS, width)
        self.within, self.across = (
            nn.TransformerEncoderLayer(width, heads, 4 * width, DROPOUT) for _ in range(2)
        )

    def forward(self, maps: Tensor) -> Tensor:
        """Same shape in and out, [B, C, ...]."""
        if not self.training:
            return maps
        # Torch's layers want the axis first along which tokens see each other.
        seen: Tensor = self.within(maps.flatten(2).permute(2, 0, 1))
        seen = self.across(seen.transpose(0, 1))
        return seen.transpose(1, 2).reshape(maps.shape)


def insert_attention(network: Network) -> None:
    """Put attention behind the encoder's fourth level, or its last where there are fewer."""
    stages = network.encoder.stages
    level = min(LEVEL, len(stages) - 1)
    stages[level] = nn.Sequential(stages[level], BatchAttention(network.feature_channels[level]))
