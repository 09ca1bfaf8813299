"""One network with two heads, a mask and signed distances to its surface, and their losses."""

from typing import Any

import edt
import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from tracoco.data.batch import Batch
from tracoco.losses.weighting import masked_mean, most_likely, sigmoid_rampup
from tracoco.methods.health import PseudoLabelHealth, class_fractions
from tracoco.methods.method import Method, NetworkFactory, RunFacts, StepOutput
from tracoco.networks.light_unet import Pointwise
from tracoco.networks.network import Network, with_features
from tracoco.settings import Settings

Mask = NDArray[np.bool_]


def distance_loss(maps: Tensor, target: Tensor, counted: Tensor) -> Tensor:
    """Squared difference of signed distances [B, C - 1, ...], mean over voxels and classes.

    Args:
        maps: what a network says.
        target: what the labels say, from `signed_distances`.
        counted: false where a voxel does not count, [B, 1, ...], or [B, C - 1, ...] by class.
    """
    return masked_mean((maps - target).square(), counted.expand_as(maps))


def signed_distances(labels: Tensor, valid: Tensor, classes: int) -> Tensor:
    """Signed distance of each voxel to the surface of each foreground class: [B, C - 1, ...].

    Negative within the class, 0 on its outermost voxels, and divided by the largest distance of
    the crop, on each side by itself: from -1 to 1. A crop without the class has 0 everywhere, and
    one that is nothing else has -1.

    Args:
        labels: class indices, [B, ...].
        valid: false where the crop is padding, [B, ...]. Padding has 0 and belongs to neither
            side: a structure that meets it has no surface there, as at the edge of the crop.
        classes: how many there are, the background among them.
    """
    distances: Tensor = _signed_distances(labels, valid, classes)
    return distances


def present_classes(labels: Tensor, valid: Tensor, classes: int) -> Tensor:
    """Whether each crop has a voxel of each foreground class: [B, C - 1]."""
    found = [((labels == k) & valid).flatten(1).any(dim=1) for k in range(1, classes)]
    return torch.stack(found, dim=1)


# The transform is not torch's. As an operation of its own it has a shape where there are no values
# to compute with, so that the memory of a step can be counted.
@torch.library.custom_op("tracoco::signed_distances", mutates_args=())
def _signed_distances(labels: Tensor, valid: Tensor, classes: int) -> Tensor:
    crops = zip(labels.cpu().numpy(), valid.cpu().numpy(), strict=True)
    maps = [
        np.stack([mask_distance(label == k, counted) for k in range(1, classes)])
        for label, counted in crops
    ]
    return torch.from_numpy(np.stack(maps)).to(labels.device)


@_signed_distances.register_fake
def _(labels: Tensor, valid: Tensor, classes: int) -> Tensor:  # noqa: ARG001 - the signature
    shape = (len(labels), classes - 1, *labels.shape[1:])
    return labels.new_empty(shape, dtype=torch.float32)


def mask_distance(mask: Mask, valid: Mask) -> NDArray[np.float32]:
    """Signed distance of each voxel to the surface of one mask, in the terms of the whole crop."""
    mask = mask & valid
    background = valid & ~mask
    distance = np.zeros(mask.shape, dtype=np.float32)
    if not mask.any():
        return distance
    if not background.any():
        distance[mask] = -1
        return distance
    # The transform measures to the nearest zero; black_border would make the crop's edge one.
    outer = edt.edt(np.ascontiguousarray(~mask), black_border=False)[background]
    inner = edt.edt(np.ascontiguousarray(~background), black_border=False)[mask]
    distance[background] = outer / outer.max()
    # Only a voxel that has the background beside it is one voxel away from it.
    distance[mask] = np.where(inner == 1, 0, -inner / inner.max())
    return distance


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


class TwoHeads(Method):
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

    def logits_and_distances(self, crops: Tensor) -> tuple[Tensor, Tensor]:
        """Logits [B, C, ...] and signed distances [B, C - 1, ...] of the crops."""
        features = self.network.decode(self.network.encode(crops))
        return self.network.head(features).float(), self.distance_head(features)

    def learn_labels(self, batch: Batch, logits: Tensor, maps: Tensor) -> dict[str, Tensor]:
        """What both heads learn from the labelled crops."""
        labelled = slice(batch.labelled_count)
        valid = batch.first.valid[labelled]
        target = signed_distances(batch.labels, valid, self.classes)
        distance = distance_loss(maps[labelled], target, valid.unsqueeze(1))
        return {
            "supervised": self.labelled_loss(logits, batch),
            "signed_distance": self._distance_weight * distance,
        }

    def unsupervised_weight(self, step: int) -> float:
        """Rises along half a Gaussian."""
        return self._largest_weight * sigmoid_rampup(step, self._rampup_steps)

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Also the distance head, which is no network."""
        return [*super().parameter_groups(), {"params": list(self.distance_head.parameters())}]

    def health(self, output: StepOutput, batch: Batch) -> PseudoLabelHealth:
        """Class fractions of the masks, and where both heads put every class alike.

        The output's pseudo-labels begin with the logits and the signed distances of all crops.
        """
        valid = batch.first.valid[batch.labelled_count :]
        logits, maps = (each[batch.labelled_count :] for each in output.pseudo_labels[:2])
        labels = most_likely(logits)
        masks = torch.stack([labels == k for k in range(1, self.classes)], dim=1)
        alike = ((maps < 0) == masks).all(dim=1)
        return PseudoLabelHealth(
            class_fractions(labels, self.classes, valid),
            further={"head_agreement": float(masked_mean(alike, valid))},
        )
