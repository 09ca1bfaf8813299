"""What methods have in common whose decoders learn from each other."""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from tracoco.data.batches import Batch
from tracoco.methods.decoders import MeanOfDecoders, SeveralDecoders
from tracoco.methods.figures import answer_shares, divergence_figures
from tracoco.methods.method import Method, RunFacts, labelled_loss

PredictWith = Literal["mean", "first"]


class SharedEncoder(Method):
    """One encoder, several decoders; all of them predict, or the first alone."""

    def __init__(self, decoders: SeveralDecoders, predict_with: PredictWith) -> None:
        super().__init__()
        self.decoders = decoders
        self.predict_with = predict_with
        self._answers: list[Tensor] = []

    def supervised(self, batch: Batch, logits: Sequence[Tensor]) -> Tensor:
        """What each decoder learns from labels, one number a decoder."""
        return torch.stack([labelled_loss(each, batch) for each in logits])

    def remember(self, batch: Batch, logits: Sequence[Tensor]) -> None:
        """Keep what the first two decoders say of the unlabelled crops, for `health`."""
        unlabelled = slice(batch.labelled_count, None)
        self._answers = [each[unlabelled].detach().softmax(dim=1) for each in logits[:2]]

    def inference_network(self) -> nn.Module:
        """All decoders or the first alone, as the settings say."""
        if self.predict_with == "mean":
            return MeanOfDecoders(self.decoders)
        return self.decoders.first

    def predict_members(self, crops: Tensor) -> list[Tensor]:
        """The prediction, and the class probabilities of the first two decoders."""
        each = [logits.softmax(dim=1) for logits in self.decoders(crops)]
        mean = self.predict_with == "mean"
        return [torch.stack(each).mean(dim=0) if mean else each[0], *each[:2]]

    def trained_networks(self) -> list[nn.Module]:
        """The encoder with all its decoders."""
        return [self.decoders]

    def health(self, batch: Batch) -> dict[str, float]:
        """Class shares of the first decoder's last labels, and how far the second agrees."""
        if not self._answers:
            return {}
        first, second = self._answers
        inside = batch.first.inside[batch.labelled_count :]
        return answer_shares(first, inside) | divergence_figures(first, second, inside)


def released_rampup(given: int | None, facts: RunFacts) -> int:
    """Steps of a ramp: those that are given, or as in the release of MC-Net.

    That is the whole run in 2D, and in 3D 6,000 of 15,000 steps.
    """
    share = {2: 1.0, 3: 0.4}[facts.dimensions]
    return given or max(1, round(share * facts.total_steps))
