"""CAML (Gao et al., MICCAI 2023): correlation-aware mutual learning."""

import math
from collections.abc import Sequence
from typing import Any, Literal

import torch
import torch.nn.functional as F
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from tracoco.data.batch import Batch
from tracoco.losses.consistency import mutual_loss
from tracoco.losses.weighting import most_likely, sigmoid_rampup
from tracoco.methods.health import PseudoLabelHealth, pair_health
from tracoco.methods.method import (
    Method,
    NetworkFactory,
    RunFacts,
    StepOutput,
    evaluating,
    unlabelled_probabilities,
)
from tracoco.methods.parts.voxel_features import draw_voxels, surest_voxels, take_voxels, voxel_head
from tracoco.networks.network import Network, Up, ways_up, with_features
from tracoco.settings import Settings


def relation_loss(
    learner: Tensor, peer: Tensor, prototypes: Tensor, *, temperature: float
) -> Tensor:
    """Cross-entropy of two networks' shares of similarity, mean over voxels.

    It is 0, still connected, where there are no voxels or no prototypes.

    Args:
        learner: one network's features of some voxels, [N, D].
        peer: the other's of the same voxels; a gradient reaches them too, unless detached.
        prototypes: features of labelled voxels, [M, D].
        temperature: what similarities are divided by.
    """
    with torch.autocast(learner.device.type, enabled=False):
        own, other = (
            (features @ prototypes.detach().T / temperature).softmax(dim=1)
            for features in (learner, peer)
        )
        # As released: what one network rules out costs the other no more than log(1e-8).
        return -(other * (own + 1e-8).log()).sum() / max(1, len(learner))


class CaseBank(nn.Module):
    """Features by case and class; those of a case are replaced whenever it is seen again.

    They are saved with the weights: the first step of a resumed run needs all that came before.
    """

    def __init__(self) -> None:
        super().__init__()
        self._cases: dict[str, list[Tensor]] = {}

    def put(self, case: str, features: list[Tensor]) -> None:
        """Remember a case by the features of each class, each [N, D]."""
        self._cases[case] = features

    def draw(self, count: int) -> list[Tensor]:
        """`count` features of each class, drawn from all cases together.

        A class that has fewer is left out until it has as many, as in the release: few prototypes
        would hardly change from step to step.
        """
        classes = [torch.cat(parts) for parts in zip(*self._cases.values(), strict=True)]
        return [_draw(own, count if len(own) >= count else 0) for own in classes]

    def get_extra_state(self) -> dict[str, list[Tensor]]:
        """All features; torch saves them among the weights."""
        return dict(self._cases)

    def set_extra_state(self, state: dict[str, list[Tensor]]) -> None:
        """Go on with what was remembered."""
        self._cases = dict(state)


def _draw(features: Tensor, count: int) -> Tensor:
    return features[torch.randperm(len(features))[:count].to(features.device)]


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
    """Labelled voxels of each class that they are compared with; a class is left out as long as the
    bank has fewer."""
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
        count, valid = batch.labelled_count, batch.first.valid
        first, second = (most_likely(each.detach()) for each in logits)
        correct = (first[:count] == batch.labels) & (second[:count] == batch.labels)
        self._remember([each[:count].detach() for each in maps], batch, correct & valid[:count])
        agreed = (first == second)[count:] & valid[count:]
        confidence = logits[0][count:].detach().softmax(dim=1).amax(dim=1)
        places = [
            surest_voxels(confidence, agreed & (first[count:] == k), self.config.positions)
            for k in range(self.classes)
        ]
        plain, attentive = self._projected([each[count:] for each in maps], torch.cat(places))
        return relation_loss(
            plain,
            attentive.detach() if self.config.detached else attentive,
            self._comparable(torch.cat(self.bank.draw(self.config.prototypes))),
            temperature=self.config.temperature,
        )

    def _projected(self, maps: list[Tensor], places: Tensor) -> list[Tensor]:
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
                    features = [
                        projector(take_voxels(own[index : index + 1], places).float())
                        for own, projector in zip(maps, self.projectors, strict=True)
                    ]
                    kept.append(torch.stack(features).mean(dim=0))
                self.bank.put(batch.cases[index], kept)


LEVEL = 3
"""The encoder's fourth, at an eighth of the resolution, as released."""
HEADS = 4
DROPOUT = 0.5


class BatchAttention(nn.Module):
    """Two transformer layers: one over the voxels of a crop, one over the crops at a voxel.

    Only while training: at test time a prediction must not depend on what else is in the batch.
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
        attended: Tensor = self.within(maps.flatten(2).permute(2, 0, 1))
        attended = self.across(attended.transpose(0, 1))
        return attended.transpose(1, 2).reshape(maps.shape)


def insert_attention(network: Network) -> None:
    """Put attention behind the encoder's fourth level, or its last where there are fewer."""
    stages = network.encoder.stages
    level = min(LEVEL, len(stages) - 1)
    stages[level] = nn.Sequential(stages[level], BatchAttention(network.feature_channels[level]))


SHARPENING = 0.1
"""Temperature of the targets, as released."""


class CAMLConfig(RelationConfig):
    """Settings of `caml`, by default those of its release for 8 labelled scans.

    The release learns from labels by half of a Dice loss, without cross-entropy. Here the
    supervised loss is the same in every method and its Dice is whole, so both weights are twice as
    large.
    """

    unsupervised_weight: float = Field(default=2.0, ge=0)
    """Largest weight of the mutual consistency; 1 in the release."""
    relation_weight: float = Field(default=0.1, ge=0)
    """Largest weight of the relations to labelled voxels; 0.05 in the release."""
    decoders: tuple[Up, Up] | Literal["own"] = "own"
    """How the plain and the attentive network double the resolution. `own`: the plain one as the
    network does by itself, the other by a transposed convolution, or by linear interpolation if
    that is the first. The release has [transpose, linear], on a VNet whose own way is the first."""
    rampup_steps: PositiveInt | None = None
    """Steps until both weights are at their largest. If not given, a fifth of the run: 3,000 of
    15,000, where the release has 6,000 for 4 labelled scans and 2,250 for 16."""


class CAML(Method):
    """A plain network, and one with attention between the crops of a batch, teach each other."""

    Config = CAMLConfig

    def __init__(self, config: CAMLConfig, build_network: NetworkFactory, facts: RunFacts) -> None:
        super().__init__()
        self.config = config
        self.plain, self.attentive = (with_features(build_network(), "caml") for _ in range(2))
        ups = ways_up(self.plain, 2) if config.decoders == "own" else config.decoders
        for network, up in zip(self._networks, ups, strict=True):
            network.decoder = network.make_decoder(up)
        insert_attention(self.attentive)
        channels = [network.decoder_channels[-1] for network in self._networks]
        self.relations = Relations(channels, facts.classes, config)
        self.rampup_steps = config.rampup_steps or max(1, facts.total_steps // 5)

    @property
    def _networks(self) -> list[Network]:
        return [self.plain, self.attentive]

    def forward(self, batch: Batch, step: int) -> StepOutput:
        """What labels teach both, agreement on all crops, and alike relations on unlabelled."""
        crops, valid = batch.first.values, batch.first.valid
        maps = [network.decode(network.encode(crops)) for network in self._networks]
        logits = [
            network.head(own).float() for network, own in zip(self._networks, maps, strict=True)
        ]
        # Targets are not detached, as in the release and in MC-Net, which it is taken from.
        distance = mutual_loss(logits, valid, temperature=SHARPENING, detached=False)
        ramp = sigmoid_rampup(step, self.rampup_steps)
        relation = self.relations(maps, logits, batch)
        terms = {
            "supervised": torch.stack([self.labelled_loss(each, batch) for each in logits]).sum(),
            "consistency": ramp * self.config.unsupervised_weight * distance,
            "relation": ramp * self.config.relation_weight * relation,
        }
        return StepOutput(terms, unlabelled_probabilities(batch, *logits))

    def inference_network(self) -> nn.Module:
        """The plain network alone."""
        return self.plain

    def predict_members(self, crops: Tensor) -> list[Tensor]:
        """Both networks' class probabilities; without attention, since this is no training."""
        return [network(crops).float().softmax(dim=1) for network in self._networks]

    def trained_networks(self) -> list[nn.Module]:
        """Both."""
        return list(self._networks)

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Also the heads, which are no network: only the relations use them."""
        return [*super().parameter_groups(), {"params": list(self.relations.parameters())}]

    def health(self, output: StepOutput, batch: Batch) -> PseudoLabelHealth:
        """Class fractions of the plain network's labels, and how far the other one agrees."""
        plain, attentive = output.pseudo_labels
        return pair_health(plain, (plain, attentive), batch.first.valid[batch.labelled_count :])
