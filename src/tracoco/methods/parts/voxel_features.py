"""Features of single voxels: which are drawn, how maps give them, which heads use them."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class VoxelNorm(nn.BatchNorm1d):
    """BatchNorm of voxels [N, D]; one voxel alone, or none, it takes by its running statistics."""

    def forward(self, features: Tensor) -> Tensor:
        """Same shape in and out."""
        if len(features) > 1:
            return super().forward(features)
        return F.batch_norm(
            features, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps
        )


def voxel_head(channels: int, hidden: int, result: int, *, slope: float = 0.0) -> nn.Sequential:
    """Two linear layers for single voxels, [N, channels] to [N, result].

    `slope` is that of the activation between them below 0.
    """
    return nn.Sequential(
        nn.Linear(channels, hidden),
        VoxelNorm(hidden),
        nn.LeakyReLU(slope, inplace=True),
        nn.Linear(hidden, result),
    )


def draw_voxels(mask: Tensor, limit: int) -> Tensor:
    """Up to `limit` of the voxels where a mask [B, ...] is true, as indices into the flat mask."""
    allowed = mask.flatten().nonzero().squeeze(1)
    return allowed[torch.randperm(len(allowed))[:limit].to(allowed.device)]


def take_voxels(maps: Tensor, places: Tensor) -> Tensor:
    """What maps [B, C, ...] hold at places of the flat [B, ...]: [N, C]."""
    flat = maps.flatten(2)
    crop, voxel = places // flat.shape[2], places % flat.shape[2]
    return flat[crop, :, voxel]


def surest_voxels(confidence: Tensor, mask: Tensor, limit: int) -> Tensor:
    """Up to `limit` of the voxels where a mask [B, ...] is true: those with the most confidence."""
    allowed = mask.flatten().nonzero().squeeze(1)
    surest = confidence.flatten()[allowed].topk(min(limit, len(allowed))).indices
    return allowed[surest]
