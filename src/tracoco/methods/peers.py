"""Two networks that teach each other, whatever they are and whatever they teach."""

import torch
from torch import Tensor, nn

from tracoco.data.batches import Batch
from tracoco.losses.weighting import most_likely
from tracoco.methods.figures import class_shares, divergence_figures, structure_figures
from tracoco.methods.method import Method, labelled_loss


class Peers(Method):
    """Two networks; the first is the one that is used."""

    def __init__(self, first: nn.Module, second: nn.Module) -> None:
        super().__init__()
        self.networks = nn.ModuleList([first, second])
        self._pseudo_labels: list[Tensor] = []

    def training_pass(self, batch: Batch) -> list[Tensor]:
        """Logits that each network gives all crops as they are; the last ones are for `health`."""
        answers = [network(batch.first.values).float() for network in self.networks]
        self._pseudo_labels = [
            logits[batch.labelled_count :].detach().softmax(dim=1) for logits in answers
        ]
        return answers

    def supervised(self, batch: Batch, first: list[Tensor]) -> Tensor:
        """Eq. (2): both networks on the labelled crops, which come first in their logits."""
        return torch.stack([labelled_loss(logits, batch) for logits in first]).sum()

    def inference_network(self) -> nn.Module:
        """The first alone."""
        return self.networks[0]

    def predict_members(self, crops: Tensor) -> list[Tensor]:
        """Both networks' class probabilities."""
        return [network(crops).float().softmax(dim=1) for network in self.networks]

    def trained_networks(self) -> list[nn.Module]:
        """Both."""
        return list(self.networks)

    def health(self, batch: Batch) -> dict[str, float]:
        """Class shares of the last pseudo-labels, and how far the two networks agree on them."""
        if not self._pseudo_labels:
            return {}
        inside = batch.first.inside[batch.labelled_count :]
        first, second = self._pseudo_labels
        labels = torch.stack([most_likely(first), most_likely(second)])
        shares = class_shares(labels, first.shape[1], inside.expand_as(labels))
        apart = divergence_figures(first, second, inside)
        return shares | apart | structure_figures(first, second, inside)
