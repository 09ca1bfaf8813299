"""SS-Net (Wu et al., MICCAI 2022): smooth predictions, and classes that lie apart."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from tracoco.data.batch import Batch
from tracoco.losses.consistency import prediction_distance
from tracoco.losses.weighting import most_likely, sigmoid_rampup
from tracoco.methods.health import PseudoLabelHealth, pair_health
from tracoco.methods.method import (
    Method,
    NetworkFactory,
    RunFacts,
    StepOutput,
    evaluating,
)
from tracoco.methods.parts.adversarial import crop_lengths, random_directions, steepest, unit_length
from tracoco.methods.parts.voxel_features import draw_voxels, take_voxels, voxel_head
from tracoco.networks.network import Network, with_features
from tracoco.networks.statistics import frozen_statistics
from tracoco.settings import Settings


def separation_loss(features: Tensor, prototypes: Tensor, scores: Tensor) -> Tensor:
    """Mean of 1 - cosine over all pairs of a feature and a prototype, each feature with its weight.

    It is 0, still connected, where there are no features or no prototypes.

    Args:
        features: of voxels of one class, [N, D].
        prototypes: of that class, [M, D]; no gradient reaches them.
        scores: what a selector makes of each feature, [N]; their sigmoids, divided by the mean of
            them, are the weights.
    """
    attention = scores.sigmoid()
    weight = len(attention) * attention / attention.sum().clamp(min=1e-8)
    # The mean of the cosines is the product with the mean of the prototypes at length one.
    count = max(1, len(prototypes))
    centre = F.normalize(prototypes.detach(), dim=1).sum(dim=0) / count
    distance = 1 - (F.normalize(features, dim=1) * centre).sum(dim=1)
    mean = (weight * distance).sum() / max(1, len(features))
    return mean * min(1, len(prototypes))


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
        """How far voxels are from the prototypes of their label, or else of their prediction.

        Args:
            features: the network's last map of all first crops, [B, channels, ...].
            logits: what its head makes of that map.
            batch: whose first crops they are.
        """
        valid, prediction = batch.first.valid, most_likely(logits.detach())
        labelled, unlabelled = slice(batch.labelled_count), slice(batch.labelled_count, None)
        correct = (prediction[labelled] == batch.labels) & valid[labelled]
        self._renew(features[labelled].detach(), batch.labels, correct)
        return self._distance(features[labelled], batch.labels, valid[labelled]) + self._distance(
            features[unlabelled], prediction[unlabelled], valid[unlabelled]
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

    def _distance(self, features: Tensor, label: Tensor, valid: Tensor) -> Tensor:
        classes = 1 + len(self.selectors)
        places = [draw_voxels((label == k) & valid, self.positions) for k in range(classes)]
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


@dataclass(frozen=True, slots=True)
class Released:
    """What the releases for 2D and 3D have different values of."""

    weight: float
    ramp: float
    """Fraction of the run in which the weight rises."""
    radius: float
    probe: float


RELEASED = {
    # Lengths of 6 and 10 over 256 x 256 pixels in [0, 1].
    2: Released(weight=0.1, ramp=1.0, radius=6 / 256, probe=10 / 256),
    # 6,000 of 15,000 steps. Lengths of 10 over 112 x 112 x 80 voxels: a hundredth of a scan's
    # standard deviation in each voxel, which is about a fifth of the range.
    3: Released(weight=1.0, ramp=0.4, radius=0.002, probe=0.002),
}


class SSNetConfig(Settings):
    """Settings of `ss-net`, by default those of its releases.

    Those learn from labels by Dice alone; here the supervised loss is the same in every method.
    """

    unsupervised_weight: float | None = Field(default=None, ge=0)
    """Largest weight of both unlabelled terms; as released 1 in 3D and 0.1 in 2D if not given."""
    rampup_steps: PositiveInt | None = None
    """Steps until the weight is at its largest; as released two fifths of the run in 3D and the
    whole run in 2D if not given."""
    radius: float | None = Field(default=None, ge=0)
    """Root mean square of the perturbation that predictions must withstand, as a fraction of the
    intensity range; 0.002 in 3D and 0.0234 in 2D if not given. The releases give the length of
    the whole perturbation, which means little without the size of their crops."""
    probe: float | None = Field(default=None, gt=0)
    """The same of the random perturbation at which the worst direction is asked for; 0.002 in 3D
    and 0.039 in 2D if not given."""
    separation_weight: float = Field(default=0.1, ge=0)
    """Of the distance to prototypes, beside a weight of 1 of the smoothness."""
    positions: PositiveInt = 16384
    """Voxels of each class, at most, that are compared with prototypes, drawn anew at every step.
    The release takes all, which large crops have no memory for."""


class Smoothness(NamedTuple):
    """How far a small change of the crops moves the prediction."""

    loss: Tensor
    target: Tensor
    """Class probabilities that must not be moved, [B, C, ...]."""
    moved: Tensor
    """Those of the changed crops, without gradient."""


class SSNet(Method):
    """One network whose predictions withstand the worst small change of a crop."""

    Config = SSNetConfig
    network: Network
    name: ClassVar[str] = "ss-net"

    def __init__(self, config: SSNetConfig, build_network: NetworkFactory, facts: RunFacts) -> None:
        super().__init__()
        self.network = with_features(build_network(), self.name)
        channels = self.network.decoder_channels[-1]
        self.separation = ClassSeparation(channels, facts.classes, config.positions)
        self.config = config
        released = RELEASED[facts.dimensions]
        weight, radius = config.unsupervised_weight, config.radius
        self.largest_weight = released.weight if weight is None else weight
        self.rampup_steps = config.rampup_steps or max(1, round(released.ramp * facts.total_steps))
        self.radius = (released.radius if radius is None else radius) * facts.intensity_range
        self.probe = (config.probe or released.probe) * facts.intensity_range

    def forward(self, batch: Batch, step: int) -> StepOutput:
        """Supervised loss, smoothness of all predictions, and the distance to prototypes."""
        crops, valid = batch.first.values, batch.first.valid
        features = self.network.decode(self.network.encode(crops))
        logits = self.network.head(features).float()
        smoothness = self.smoothness(crops, logits.detach().softmax(dim=1), valid)
        separation = self.config.separation_weight * self.separation(features, logits, batch)
        weight = self.largest_weight * sigmoid_rampup(step, self.rampup_steps)
        terms = {
            "supervised": self.labelled_loss(logits, batch),
            "smoothness": weight * smoothness.loss,
            "separation": weight * separation,
        }
        unlabelled = slice(batch.labelled_count, None)
        return StepOutput(terms, (smoothness.target[unlabelled], smoothness.moved[unlabelled]))

    def smoothness(self, crops: Tensor, prediction: Tensor, valid: Tensor) -> Smoothness:
        """How far the worst small change of the crops moves the prediction.

        The prediction to hold on to is that of the training pass; the release makes another pass
        for it, in the same mode.
        """
        with frozen_statistics(self.network):
            start = random_directions(crops, valid)
            worst = unit_length(self.score(start, crops, prediction, valid), valid)
            change = crop_lengths(valid, crops.shape[1], self.radius) * worst
            moved = self.network(crops + change).float().softmax(dim=1)
        distance = prediction_distance(moved, prediction, valid)
        return Smoothness(distance, prediction, moved.detach())

    def score(self, start: Tensor, crops: Tensor, prediction: Tensor, valid: Tensor) -> Tensor:
        """Where the prediction changes fastest, seen from a direction of length one."""

        def distance(change: Tensor) -> Tensor:
            moved = self.network(crops + change).softmax(dim=1)
            return prediction_distance(moved, prediction, valid)

        return steepest(distance, crop_lengths(valid, crops.shape[1], self.probe) * start)

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Also the heads, which are no network: only the separation uses them."""
        return [*super().parameter_groups(), {"params": list(self.separation.parameters())}]

    def health(self, output: StepOutput, batch: Batch) -> PseudoLabelHealth:
        """Class fractions of the labels of unlabelled crops, and how far they were moved."""
        target, moved = output.pseudo_labels
        return pair_health(target, (target, moved), batch.first.valid[batch.labelled_count :])
