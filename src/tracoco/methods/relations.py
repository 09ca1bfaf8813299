"""How two networks relate unlabelled voxels to what they know of labelled ones (CAML)."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from tracoco.config import Settings
from tracoco.data.batches import Batch
from tracoco.losses.relation import relation_loss
from tracoco.losses.weighting import most_likely
from tracoco.methods.case_bank import CaseBank
from tracoco.methods.method import evaluating
from tracoco.methods.voxel_features import draw_voxels, surest_voxels, take_voxels, voxel_head

PROJECTED = 32
"""Length of the features that are compared, as released."""
BANKED = 1024
"""Voxels of each case and class that are remembered. The release keeps all; what is drawn from a
random part of them has the same distribution."""


class RelationConfig(Settings):
    """Settings of the relations, as in CAML's release."""

    temperature: float = Field(default=0.1, gt=0)
    """What similarities are divided by."""
    positions: PositiveInt = 12800
    """Voxels of each class, at most, that are compared: those that the plain network is surest
    of."""
    prototypes: PositiveInt = 256
    """Labelled voxels of each class, at most, that they are compared with."""
    normalised: bool = False
    """Compare directions alone. The release takes lengths in, which makes the first steps rough."""
    detached: bool = False
    """Whether only the plain network learns from a difference; in the release both do."""


class Relations(nn.Module):
    """Heads of both networks, and a bank of voxels that both got right."""

    def __init__(self, channels: Sequence[int], classes: int, config: RelationConfig) -> None:
        super().__init__()
        self.projectors = nn.ModuleList(voxel_head(each, PROJECTED, PROJECTED) for each in channels)
        self.predictors = nn.ModuleList(
            voxel_head(PROJECTED, PROJECTED, PROJECTED) for _ in channels
        )
        self.bank = CaseBank()
        self.classes = classes
        self.config = config

    def forward(self, maps: list[Tensor], logits: list[Tensor], batch: Batch) -> Tensor:
        """How far the networks part in what they take unlabelled voxels to be like.

        Args:
            maps: last maps of the plain and of the attentive network, each [B, channels, ...].
            logits: what their heads make of them.
            batch: whose first crops they are.
        """
        count, inside = batch.labelled_count, batch.first.inside
        first, second = (most_likely(each.detach()) for each in logits)
        correct = (first[:count] == batch.labels) & (second[:count] == batch.labels)
        self._remember([each[:count].detach() for each in maps], batch, correct & inside[:count])
        agreed = (first == second)[count:] & inside[count:]
        confidence = logits[0][count:].detach().softmax(dim=1).amax(dim=1)
        places = [
            surest_voxels(confidence, agreed & (first[count:] == k), self.config.positions)
            for k in range(self.classes)
        ]
        plain, attentive = self._look([each[count:] for each in maps], torch.cat(places))
        return relation_loss(
            plain,
            attentive.detach() if self.config.detached else attentive,
            self._comparable(torch.cat(self.bank.draw(self.config.prototypes))),
            temperature=self.config.temperature,
        )

    def _look(self, maps: list[Tensor], places: Tensor) -> list[Tensor]:
        heads = zip(maps, self.projectors, self.predictors, strict=True)
        return [
            self._comparable(predictor(projector(take_voxels(own, places))).float())
            for own, projector, predictor in heads
        ]

    def _comparable(self, features: Tensor) -> Tensor:
        return F.normalize(features, dim=1) if self.config.normalised else features

    def _remember(self, maps: list[Tensor], batch: Batch, correct: Tensor) -> None:
        """Voxels of each labelled case that both networks got right, as the mean of both."""
        # In full precision, in which they are kept.
        with evaluating(self), torch.autocast(correct.device.type, enabled=False):
            for index, right in enumerate(correct):
                kept = []
                for k in range(self.classes):
                    places = draw_voxels(right & (batch.labels[index] == k), BANKED)
                    seen = [
                        projector(take_voxels(own[index : index + 1], places).float())
                        for own, projector in zip(maps, self.projectors, strict=True)
                    ]
                    kept.append(torch.stack(seen).mean(dim=0))
                self.bank.put(batch.cases[index], kept)
