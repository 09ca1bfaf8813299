"""Masked autoencoder (Wald et al., CVPR 2025): learn features from scans without any label."""

from collections.abc import Sequence
from math import ceil, prod
from typing import Any, ClassVar

import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from tracoco.data.batch import Batch
from tracoco.losses.weighting import masked_mean
from tracoco.methods.method import Method, NetworkFactory, RunFacts, StepOutput
from tracoco.networks.light_unet import Pointwise
from tracoco.networks.network import Network, with_features
from tracoco.settings import Settings

FEWEST_BLOCKS = 4
"""Along each axis of a crop that has as many voxels: shorter crops have smaller blocks."""


class MaskedAutoencoderConfig(Settings):
    """Settings of `masked-autoencoder`, by default those of the release (nnssl)."""

    ratio: float = Field(default=0.75, gt=0, lt=1)
    """Fraction of the blocks of each crop that are hidden from the network."""
    block: PositiveInt = 16
    """Side of a block in voxels; at most a quarter of the crop along each axis, so that small crops
    have enough blocks. The release has crops of 160 voxels, ten blocks along each axis."""


class MaskedAutoencoder(Method):
    """Encoder and decoder of the network fill in what is hidden; there is no segmentation."""

    Config = MaskedAutoencoderConfig
    adaptive: ClassVar[bool] = False
    network: Network

    def __init__(
        self, config: MaskedAutoencoderConfig, build_network: NetworkFactory, facts: RunFacts
    ) -> None:
        super().__init__()
        self.network = with_features(build_network(), "masked-autoencoder")
        self.network.head = nn.Identity()  # a run that starts from these weights draws its own
        self.reconstruct = Pointwise(self.network.decoder_channels[-1], facts.channels)
        self._ratio, self._block = config.ratio, config.block

    def forward(self, batch: Batch, step: int) -> StepOutput:
        """Squared difference to the hidden intensities of all crops; labels are not looked at."""
        crops, valid = batch.first.values, batch.first.valid
        hidden = block_masks(len(crops), crops.shape[2:], self._block, self._ratio, crops.device)
        features = self.network(crops.masked_fill(hidden.unsqueeze(1), 0))
        reconstruction: Tensor = self.reconstruct(features)
        loss = reconstruction_loss(reconstruction.float(), crops, hidden & valid)
        return StepOutput({"reconstruction": loss})

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Also the head that reconstructs, which is no network."""
        return [*super().parameter_groups(), {"params": list(self.reconstruct.parameters())}]


def reconstruction_loss(reconstruction: Tensor, crops: Tensor, counted: Tensor) -> Tensor:
    """Squared difference of intensities [B, C, ...], mean over channels and counted voxels.

    Args:
        reconstruction: what the network makes of the crops that it saw in part.
        crops: as they are.
        counted: true where a voxel was hidden and lies in the scan, [B, ...].
    """
    return masked_mean((reconstruction - crops).square().mean(dim=1), counted)


def block_masks(
    count: int, size: Sequence[int], block: int, ratio: float, device: torch.device | None = None
) -> Tensor:
    """For each crop a mask of hidden blocks, [count, *size]; torch's generator decides.

    As many blocks are hidden in every crop: the ratio, rounded, but at least one and never all.

    Args:
        count: crops.
        size: of a crop; at its far end blocks may be cut off.
        block: side of a block, where the crop is long enough.
        ratio: fraction of the blocks that are hidden.
        device: of the masks.
    """
    sides = [min(block, max(1, n // FEWEST_BLOCKS)) for n in size]
    blocks = [ceil(n / side) for n, side in zip(size, sides, strict=True)]
    total = prod(blocks)
    hidden = min(max(1, round(ratio * total)), max(1, total - 1))
    order = torch.rand(count, total, device=device).argsort(dim=1)
    masks = (order < hidden).reshape(count, *blocks)
    for axis, (n, side) in enumerate(zip(size, sides, strict=True), start=1):
        masks = masks.repeat_interleave(side, dim=axis).narrow(axis, 0, n)
    return masks
