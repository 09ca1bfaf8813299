"""A discriminator: which crops of a batch are the labelled ones, by their distance maps?"""

from itertools import pairwise

import torch.nn.functional as F
from torch import Tensor, nn

from tracoco.networks.layers import CONVOLUTION

SLOPE = 0.2
DROPOUT = 0.5
"""Share of whole channels, behind each halving but the last."""
HALVE = {"kernel_size": 4, "stride": 2, "padding": 1}


class Discriminator(nn.Module):
    """Convolutions that halve distance maps and crops four times, then a mean over all places.

    The layers are those of SASSNet's release. That has a mean for the crop sizes of two datasets,
    this one is for any crop.
    """

    def __init__(self, classes: int, channels: int, dimensions: int, filters: int) -> None:
        """`filters` is the number of channels behind the first halving."""
        super().__init__()
        convolution = CONVOLUTION[dimensions]
        self.of_maps = convolution(classes - 1, filters, **HALVE)
        self.of_crops = convolution(channels, filters, **HALVE)
        widths = [filters * 2**level for level in range(4)]
        self.deeper = nn.ModuleList(
            convolution(fine, coarse, **HALVE) for fine, coarse in pairwise(widths)
        )
        self.verdict = nn.Linear(widths[-1], 2)

    def forward(self, maps: Tensor, crops: Tensor, *, dropout: bool) -> Tensor:
        """Logits of unlabelled and of labelled, [B, 2].

        Args:
            maps: signed distances, [B, classes - 1, ...].
            crops: the crops that they belong to, [B, channels, ...].
            dropout: on while the discriminator learns, off while it judges.
        """
        features = self.of_maps(_halvable(maps)) + self.of_crops(_halvable(crops))
        for layer in self.deeper:
            features = F.leaky_relu(features, SLOPE)
            # Behind one long axis it drops whole channels in 2D and 3D alike.
            dropped = F.dropout1d(features.flatten(2), DROPOUT, training=dropout)
            features = layer(_halvable(dropped.reshape(features.shape)))
        verdict: Tensor = self.verdict(F.leaky_relu(features, SLOPE).flatten(2).mean(dim=2))
        return verdict.float()


def _halvable(maps: Tensor) -> Tensor:
    """An axis of one voxel gets a second one of zeros, so that thin crops can be halved too."""
    if min(maps.shape[2:]) > 1:
        return maps
    return F.pad(maps, [side for n in reversed(maps.shape[2:]) for side in (0, max(0, 2 - n))])
