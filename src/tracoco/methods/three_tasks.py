"""One encoder, three decoders: a mask, signed distances, and what each class looks like."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tracoco.losses.signed_distance import distance_loss, present_classes, signed_distances
from tracoco.losses.weighting import masked_mean
from tracoco.methods.decoders import Branch
from tracoco.methods.method import NetworkFactory, RunFacts
from tracoco.methods.two_heads import DistanceHead
from tracoco.networks.light_unet import Pointwise
from tracoco.networks.network import with_features


@dataclass(frozen=True, slots=True)
class Answer:
    """What the three decoders say of some crops."""

    logits: Tensor
    """Of each class, [B, C, ...]."""
    distances: Tensor
    """Signed, from -1 to 1, [B, C - 1, ...]."""
    pictures: Tensor
    """The crop where it is of a class, else 0: [B, C * channels, ...], from 0 to 1."""

    def __getitem__(self, chosen: slice) -> "Answer":
        """The same of some of the crops."""
        return Answer(self.logits[chosen], self.distances[chosen], self.pictures[chosen])


class ThreeTasks(nn.Module):
    """A network, and two further decoders on its encoder that serve the training alone."""

    def __init__(self, who: str, build_network: NetworkFactory, facts: RunFacts) -> None:
        super().__init__()
        self.network = with_features(build_network(), who)
        width = self.network.decoder_channels[-1]
        distances = DistanceHead(width, facts.classes)
        pictures = Pointwise(width, facts.classes * facts.channels)
        self.distance = Branch(self.network.make_decoder("linear"), distances)
        self.reconstruction = Branch(self.network.make_decoder("linear"), pictures)

    def forward(self, crops: Tensor) -> Tensor:
        """Logits of each class, [B, C, ...]."""
        logits: Tensor = self.network(crops)
        return logits

    def look(self, crops: Tensor, dropout: float = 0.0) -> Answer:
        """What all decoders say of the crops, less a share of the coarsest map's channels."""
        *fine, coarse = self.network.encode(crops)
        # Behind one long axis it drops whole channels in 2D and 3D alike.
        coarse = F.dropout1d(coarse.flatten(2), dropout).reshape(coarse.shape)
        features = [*fine, coarse]
        # The reconstruction has no skips: zeros add nothing, however a network merges its maps.
        alone = [*map(torch.zeros_like, fine), coarse]
        logits: Tensor = self.network.head(self.network.decode(features)).float()
        return Answer(logits, self.distance(features), self.reconstruction(alone).float().sigmoid())


def task_losses(
    answer: Answer, labels: Tensor, crops: Tensor, inside: Tensor
) -> tuple[Tensor, Tensor]:
    """How far distances and pictures are from those that labels, or pseudo-labels, ask for.

    A class that a crop does not have says nothing of distances and does not count there.

    Args:
        answer: what learns.
        labels: class indices, [B, ...].
        crops: without noise, from 0 to 1, [B, channels, ...].
        inside: false where the crops are padding, [B, ...].
    """
    classes = answer.logits.shape[1]
    present = present_classes(labels, inside, classes)
    present = present.reshape(*present.shape, *(1,) * (labels.ndim - 1))
    target = signed_distances(labels, inside, classes)
    distance = distance_loss(answer.distances, target, inside.unsqueeze(1) & present)
    masks = torch.stack([labels == k for k in range(classes)], dim=1)
    wanted = (masks.unsqueeze(2) * crops.unsqueeze(1)).flatten(1, 2)
    pictures = (answer.pictures - wanted).square().mean(dim=1)
    return distance, masked_mean(pictures, inside)
