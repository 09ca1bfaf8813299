"""Prototypes of correctly segmented voxels, and the heads that draw features to them (SS-Net)."""

import torch
from torch import Tensor, nn

from tracoco.data.batches import Batch
from tracoco.losses.separation import separation_loss
from tracoco.losses.weighting import most_likely
from tracoco.methods.method import evaluating
from tracoco.methods.voxel_features import draw_voxels, take_voxels, voxel_head

PROJECTED = 32
"""Length of the features that are compared, as released."""
KEPT = 32
"""Prototypes of each class, as released."""


class ClassSeparation(nn.Module):
    """Heads, prototypes and loss; a prototype comes from a labelled voxel that was got right.

    The background has no prototypes. Its voxels go through the heads all the same, whose
    normalisation would otherwise not know what the classes are to be told from.
    """

    prototypes: Tensor
    held: Tensor

    def __init__(self, channels: int, classes: int, positions: int) -> None:
        """Start without prototypes.

        Args:
            channels: of the maps that features are taken from.
            classes: with the background.
            positions: voxels of each class that are drawn at a step, at most.
        """
        super().__init__()
        self.projector = voxel_head(channels, PROJECTED, PROJECTED)
        self.predictor = voxel_head(PROJECTED, PROJECTED, PROJECTED)
        self.selectors = nn.ModuleList(
            voxel_head(PROJECTED, PROJECTED, 1, slope=0.2) for _ in range(1, classes)
        )
        self.register_buffer("prototypes", torch.zeros(classes - 1, KEPT, PROJECTED))
        self.register_buffer("held", torch.zeros(classes - 1, KEPT, dtype=torch.bool))
        self.positions = positions

    def forward(self, features: Tensor, logits: Tensor, batch: Batch) -> Tensor:
        """How far voxels are from the prototypes of their label, or else of their answer.

        Args:
            features: the network's last map of all first crops, [B, channels, ...].
            logits: what its head makes of that map.
            batch: whose first crops they are.
        """
        inside, answer = batch.first.inside, most_likely(logits.detach())
        labelled, unlabelled = slice(batch.labelled_count), slice(batch.labelled_count, None)
        correct = (answer[labelled] == batch.labels) & inside[labelled]
        self._renew(features[labelled].detach(), batch.labels, correct)
        return self._distance(features[labelled], batch.labels, inside[labelled]) + self._distance(
            features[unlabelled], answer[unlabelled], inside[unlabelled]
        )

    def _renew(self, features: Tensor, label: Tensor, correct: Tensor) -> None:
        """Replace the prototypes of each class that has a correct voxel by its best-scored ones."""
        # In full precision, in which they are kept.
        with evaluating(self), torch.autocast(features.device.type, enabled=False):
            for index, selector in enumerate(self.selectors):
                places = draw_voxels((label == index + 1) & correct, self.positions)
                candidates = self.projector(take_voxels(features, places).float())
                count = min(KEPT, len(candidates))
                if count:
                    best = selector(candidates).squeeze(1).topk(count).indices
                    self.prototypes[index, :count] = candidates[best]
                    self.held[index] = torch.arange(KEPT, device=places.device) < count

    def _distance(self, features: Tensor, label: Tensor, inside: Tensor) -> Tensor:
        classes = 1 + len(self.selectors)
        places = [draw_voxels((label == k) & inside, self.positions) for k in range(classes)]
        drawn = take_voxels(features, torch.cat(places))
        predicted = self.predictor(self.projector(drawn)).float()
        _, *parts = predicted.split([len(each) for each in places])
        losses = [
            separation_loss(part, prototypes[held], selector(part.detach()).float().squeeze(1))
            for part, prototypes, held, selector in zip(
                parts, self.prototypes, self.held, self.selectors, strict=True
            )
        ]
        # By all classes, although the background adds nothing: as released.
        return torch.stack(losses).sum() / classes
