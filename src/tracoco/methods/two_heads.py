"""One network with two heads: a mask, and signed distances to the mask's surface."""

from typing import Any

import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from tracoco.config import Settings
from tracoco.data.batches import Batch
from tracoco.losses.signed_distance import distance_loss, signed_distances
from tracoco.losses.weighting import masked_mean, most_likely, sigmoid_rampup
from tracoco.methods.figures import class_shares
from tracoco.methods.method import NetworkFactory, RunFacts, labelled_loss
from tracoco.methods.one_network import OneNetwork
from tracoco.networks.light_unet import Pointwise
from tracoco.networks.network import Network, with_features


class DistanceHead(nn.Module):
    """From a decoder's last map to signed distances: one map a foreground class, from -1 to 1."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.layer = Pointwise(width, classes - 1)

    def forward(self, features: Tensor) -> Tensor:
        """[B, width, ...] to [B, classes - 1, ...] in float32; negative within the class."""
        scores: Tensor = self.layer(features)
        return scores.float().tanh()


class TwoHeadsConfig(Settings):
    """What methods with a mask and a distance map have in common.

    Their releases learn masks by Dice alone. Here the supervised loss is the same in every method,
    so cross-entropy is added; the weights are those beside the release's Dice.
    """

    distance_weight: float = Field(default=0.3, ge=0)
    """Of the signed distances on labelled crops, as released."""
    rampup_steps: PositiveInt | None = None
    """Steps until unlabelled crops have their full weight; the whole run if not given, as in the
    releases."""
    unsupervised_weight: float = Field(ge=0)
    """Largest weight of what unlabelled crops teach; each method has a default of its own."""


class TwoHeads(OneNetwork):
    """The network with its mask head predicts; the distance head serves the training alone."""

    network: Network

    def __init__(
        self, config: TwoHeadsConfig, build_network: NetworkFactory, facts: RunFacts, who: str
    ) -> None:
        super().__init__()
        self.network = with_features(build_network(), who)
        self.distance_head = DistanceHead(self.network.decoder_channels[-1], facts.classes)
        self.classes = facts.classes
        self._distance_weight = config.distance_weight
        self._largest_weight = config.unsupervised_weight
        self._rampup_steps = config.rampup_steps or facts.total_steps
        self._answers: tuple[Tensor, Tensor] | None = None

    def look(self, crops: Tensor) -> tuple[Tensor, Tensor]:
        """Logits [B, C, ...] and signed distances [B, C - 1, ...] of the crops."""
        features = self.network.decode(self.network.encode(crops))
        logits, maps = self.network.head(features).float(), self.distance_head(features)
        self._answers = logits.detach(), maps.detach()
        return logits, maps

    def learn_labels(self, batch: Batch, logits: Tensor, maps: Tensor) -> dict[str, Tensor]:
        """What both heads learn from the labelled crops."""
        labelled = slice(batch.labelled_count)
        inside = batch.first.inside[labelled]
        target = signed_distances(batch.labels, inside, self.classes)
        distance = distance_loss(maps[labelled], target, inside.unsqueeze(1))
        return {
            "supervised": labelled_loss(logits, batch),
            "signed_distance": self._distance_weight * distance,
        }

    def unsupervised_weight(self, step: int) -> float:
        """Rises along half a Gaussian."""
        return self._largest_weight * sigmoid_rampup(step, self._rampup_steps)

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Also the distance head, which is no network."""
        return [*super().parameter_groups(), {"params": list(self.distance_head.parameters())}]

    def health(self, batch: Batch) -> dict[str, float]:
        """Class shares of the last masks, and where both heads put every class alike."""
        if self._answers is None:
            return {}
        inside = batch.first.inside[batch.labelled_count :]
        logits, maps = (answer[batch.labelled_count :] for answer in self._answers)
        labels = most_likely(logits)
        masks = torch.stack([labels == k for k in range(1, self.classes)], dim=1)
        alike = ((maps < 0) == masks).all(dim=1)
        agreement = {"head_agreement": float(masked_mean(alike, inside))}
        return class_shares(labels, self.classes, inside) | agreement
