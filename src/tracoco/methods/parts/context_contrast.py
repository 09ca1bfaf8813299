"""The contrastive loss of CAC: features of a voxel must not depend on what surrounds the crop."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from pydantic import Field, NonNegativeInt, PositiveInt
from torch import Tensor, nn

from tracoco.data.batch import Batch
from tracoco.geometry import Box
from tracoco.methods.method import RunFacts, uniform_noise
from tracoco.networks.network import Network
from tracoco.networks.statistics import frozen_statistics
from tracoco.settings import Settings


@dataclass(frozen=True, slots=True)
class Points:
    """Single voxels of one view: what the network saw there, and what it took it for."""

    features: Tensor
    """Of length one, [N, D]."""
    confidence: Tensor
    """The largest class probability, [N]."""
    label: Tensor
    """The most likely class, [N]."""


@dataclass(frozen=True, slots=True)
class Bank:
    """Features to keep away from, unless they have the same label; no gradient reaches them."""

    features: Tensor
    """Of length one, [M, D]."""
    label: Tensor
    """Pseudo-labels, [M]."""


def contrast_loss(
    first: Points, second: Points, bank: Bank, *, threshold: float, temperature: float
) -> Tensor:
    """Both directions: at each voxel the less confident view follows the more confident one.

    Args:
        first: voxels of the overlap as seen in the first crops.
        second: the same voxels in the same order, as seen in the second crops.
        bank: features of any voxels of both crops.
        threshold: a view teaches where its confidence is above this.
        temperature: what similarities are divided by.
    """
    options = {"threshold": threshold, "temperature": temperature}
    return directional_loss(first, second, bank, **options) + directional_loss(
        second, first, bank, **options
    )


def directional_loss(
    learner: Points, teacher: Points, bank: Bank, *, threshold: float, temperature: float
) -> Tensor:
    """-log of the teacher's fraction among the features that the learner is compared with.

    Those are the teacher's feature of the same voxel and all in the bank that have another label
    than the learner's. The mean is over the voxels where the teacher is sure, and surer.
    """
    sure = (teacher.confidence > threshold) & (learner.confidence < teacher.confidence)
    # As indices: with a mask, every selection by it would wait for the GPU.
    learnt = sure.nonzero().squeeze(1)
    label = learner.label[learnt]
    # In full precision: a bfloat16 similarity divided by 0.1 would be off by up to 0.02.
    with torch.autocast(learner.features.device.type, enabled=False):
        own, other = learner.features[learnt].float(), teacher.features[learnt].detach().float()
        positive = (own * other).sum(dim=1, keepdim=True)
        total = 0 * positive.sum()  # connected, also where nothing is taught
        # Class by class: most voxels are background, and few in the bank are not.
        for value in label.unique():
            rows = (label == value).nonzero().squeeze(1)
            strangers = bank.features[bank.label != value].detach().float()
            choices = torch.cat([positive[rows], own[rows] @ strangers.T], dim=1) / temperature
            first = torch.zeros_like(rows)
            total = total + F.cross_entropy(choices, first, reduction="sum")
    return total / max(1, len(learnt))


PROJECTED = 128
"""Length of the features that are compared, as released."""
EMPTY = -1
"""Label of a place in the bank that holds no feature."""


class ContrastConfig(Settings):
    """Settings of the contrast; what is not explained otherwise is as in CAC's release."""

    contrast_weight: float = Field(default=0.1, ge=0)
    """Weight of the contrast, constant once it counts."""
    start_step: NonNegativeInt | None = None
    """Step from which the contrast counts; a sixteenth of the run if not given, as 5 of the
    release's 80 epochs."""
    threshold: float = Field(default=0.75, ge=0, lt=1)
    """A crop teaches the other one where its largest class probability is above this."""
    temperature: float = Field(default=0.1, gt=0)
    """What similarities are divided by."""
    positions: PositiveInt = 2048
    """Voxels of each overlap that are compared, drawn anew at every step. The release compares
    all of a map at an eighth of the resolution; at full resolution they would be too many."""
    bank: int = Field(default=8192, ge=2)
    """Features to keep away from: half of this step's, half of the step before. They come from
    anywhere in both crops of a pair, in the overlap or not, as in the release."""


class Contrast(NamedTuple):
    """What the contrast of one network computed."""

    logits: Tensor
    """Of all first crops, [B, C, ...]."""
    loss: Tensor
    """Weighted."""
    labels: Tensor
    """Of the drawn voxels as seen in the first and in the second crops, [2, N]."""
    confidence: Tensor
    """The largest class probability of the same, [2, N]."""


def crop_agreement(labels: Tensor) -> float:
    """Fraction of drawn voxels [2, N] that both crops of a pair give the same class."""
    return float((labels[0] == labels[1]).sum() / max(1, labels.shape[1]))


class ContextContrast(nn.Module):
    """The projector, the bank and the loss that one network needs."""

    bank_features: Tensor
    bank_labels: Tensor

    def __init__(
        self, network: Network, config: ContrastConfig, noise: float, facts: RunFacts
    ) -> None:
        super().__init__()
        # 1x1 convolutions, as layers that take single voxels: only drawn ones are projected.
        self.projector = nn.Sequential(
            nn.Linear(network.decoder_channels[-1], PROJECTED),
            nn.ReLU(inplace=True),
            nn.Linear(PROJECTED, PROJECTED),
        )
        # Saved with the weights: the first step of a resumed run needs the step before.
        self.register_buffer("bank_features", torch.zeros(config.bank // 2, PROJECTED))
        self.register_buffer("bank_labels", torch.full((config.bank // 2,), EMPTY))
        self.config = config
        self.noise = noise * facts.intensity_range
        self.start_step = (
            facts.total_steps // 16 if config.start_step is None else config.start_step
        )

    def forward(self, network: Network, batch: Batch, step: int) -> Contrast:
        """The network's logits of all first crops, and the contrast of the unlabelled ones.

        Each crop has noise of its own, since the release changes the colours of each by itself.
        """
        unlabelled = slice(batch.labelled_count, None)
        features, logits = self._features_and_logits(network, batch.first.values)
        with frozen_statistics(network):
            shifted = self._features_and_logits(network, batch.second.values[unlabelled])
        boxes = batch.overlaps[unlabelled]
        here, there = [box for box, _ in boxes], [box for _, box in boxes]
        places = draw_places(batch.first.valid[unlabelled], here, self.config.positions)
        first = self._project(features[unlabelled], logits[unlabelled], here, places)
        second = self._project(*shifted, there, places)
        bank = self._remember(
            self._anywhere(features[unlabelled], logits[unlabelled], batch.first.valid[unlabelled]),
            self._anywhere(*shifted, batch.second.valid[unlabelled]),
        )
        options = {"threshold": self.config.threshold, "temperature": self.config.temperature}
        # Before the start the weight is 0 but the term is there: processes must agree on terms.
        weight = self.config.contrast_weight if step >= self.start_step else 0.0
        return Contrast(
            logits,
            weight * contrast_loss(first, second, bank, **options),
            torch.stack([first.label, second.label]),
            torch.stack([first.confidence, second.confidence]),
        )

    def _features_and_logits(self, network: Network, crops: Tensor) -> tuple[Tensor, Tensor]:
        """The features behind a network's prediction, and the prediction."""
        features = network.decode(network.encode(uniform_noise(crops, self.noise)))
        return features, network.head(features).float()

    def _project(
        self, features: Tensor, logits: Tensor, boxes: Sequence[Box], places: Sequence[Tensor]
    ) -> Points:
        drawn = self.projector(take_places(features, boxes, places))
        probability = take_places(logits.detach(), boxes, places).softmax(dim=1)
        return Points(F.normalize(drawn.float(), dim=1), *probability.max(dim=1))

    @torch.no_grad()
    def _anywhere(self, features: Tensor, logits: Tensor, valid: Tensor) -> Points:
        """Voxels of whole crops, for the bank: half of what it takes from a step."""
        size = tuple(valid.shape[1:])
        whole = [Box((0,) * len(size), size)] * len(valid)
        places = draw_places(valid, whole, math.ceil(len(self.bank_labels) / 2 / len(valid)))
        return self._project(features, logits, whole, places)

    @torch.no_grad()
    def _remember(self, *views: Points) -> Bank:
        """The bank of this step; what it takes from this step is kept for the next one."""
        features = torch.cat([points.features for points in views])
        labels = torch.cat([points.label for points in views])
        chosen = torch.randperm(len(labels))[: len(self.bank_labels)].to(labels.device)
        features, labels = features[chosen], labels[chosen]
        held = (self.bank_labels != EMPTY).nonzero().squeeze(1)
        before = self.bank_features[held], self.bank_labels[held]
        bank = Bank(torch.cat([features, before[0]]), torch.cat([labels, before[1]]))
        self.bank_labels.fill_(EMPTY)
        self.bank_features[: len(chosen)] = features
        self.bank_labels[: len(chosen)] = labels
        return bank


def draw_places(valid: Tensor, boxes: Sequence[Box], limit: int) -> list[Tensor]:
    """Up to `limit` voxels of each box that lie inside the scan, as indices into the flat box."""
    places = []
    for mask, box in zip(valid, boxes, strict=True):
        allowed = mask[box.slices].flatten().nonzero().squeeze(1)
        places.append(allowed[torch.randperm(len(allowed))[:limit].to(allowed.device)])
    return places


def take_places(maps: Tensor, boxes: Sequence[Box], places: Sequence[Tensor]) -> Tensor:
    """What maps [B, C, ...] hold at the places of each box, case after case: [N, C]."""
    taken = [
        case[:, *box.slices].flatten(1)[:, chosen]
        for case, box, chosen in zip(maps, boxes, places, strict=True)
    ]
    return torch.cat(taken, dim=1).T
