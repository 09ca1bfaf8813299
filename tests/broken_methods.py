"""Methods with one mistake each, for what must notice it."""
# ruff: noqa: ARG002 - arguments of the contract

from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tracoco.data.batch import Batch
from tracoco.losses.weighting import masked_mean
from tracoco.methods import MethodRow
from tracoco.methods.method import Method, NetworkFactory, RunFacts, StepOutput, evaluating
from tracoco.settings import Settings

ROW = MethodRow(
    target="broken_methods:Sound",
    idea="Predict alike with and without noise.",
    trained_by_unlabelled=("network",),
)


class SoundConfig(Settings):
    """Settings of the sound method."""

    noise: float = 0.1
    """Deviation of the noise."""


class Sound(Method):
    """A small method without a mistake; each of the others makes one."""

    Config = SoundConfig

    def __init__(self, config: SoundConfig, build_network: NetworkFactory, facts: RunFacts) -> None:
        super().__init__()
        self.config = config
        self.network = build_network()

    def forward(self, batch: Batch, step: int) -> StepOutput:
        crops, valid, count = batch.first.values, batch.first.valid, batch.labelled_count
        noisy = crops + self.config.noise * torch.randn_like(crops)
        logits = self.network(noisy).float()
        with evaluating(self.network):
            clean = self.network(crops[count:]).float().softmax(dim=1)
        distance = (logits[count:].softmax(dim=1) - clean).square().sum(dim=1)
        terms = {
            "supervised": self.labelled_loss(logits, batch),
            "consistency": self.consistency(distance, valid[count:]),
        }
        return self.output(terms, batch)

    def consistency(self, distance: Tensor, valid: Tensor) -> Tensor:
        return masked_mean(distance, valid)

    def output(self, terms: dict[str, Tensor], batch: Batch) -> StepOutput:
        return StepOutput(terms)


class FloatTerm(Sound):
    def consistency(self, distance: Tensor, valid: Tensor) -> Tensor:
        return super().consistency(distance, valid).item()  # type: ignore[return-value]  # the mistake


class Unreduced(Sound):
    def consistency(self, distance: Tensor, valid: Tensor) -> Tensor:
        return distance


class WithoutGradient(Sound):
    def consistency(self, distance: Tensor, valid: Tensor) -> Tensor:
        return super().consistency(distance, valid).detach() + 1


class NotFinite(Sound):
    def consistency(self, distance: Tensor, valid: Tensor) -> Tensor:
        return super().consistency(distance, valid) / 0


class WithoutTerms(Sound):
    def output(self, terms: dict[str, Tensor], batch: Batch) -> StepOutput:
        return StepOutput({})


class PlainDict(Sound):
    def output(self, terms: dict[str, Tensor], batch: Batch) -> StepOutput:
        return terms  # type: ignore[return-value]  # the mistake


class OtherNames(Sound):
    def output(self, terms: dict[str, Tensor], batch: Batch) -> StepOutput:
        return StepOutput({"ce": terms["supervised"], "mse": terms["consistency"]})


class CountsPadding(Sound):
    def consistency(self, distance: Tensor, valid: Tensor) -> Tensor:
        return distance.mean()


class CountsPaddedLabels(Sound):
    def output(self, terms: dict[str, Tensor], batch: Batch) -> StepOutput:
        logits = self.network(batch.first.values[: batch.labelled_count]).float()
        return StepOutput(terms | {"supervised": F.cross_entropy(logits, batch.labels)})


class Remembers(Sound):
    """Its mean of past losses is no buffer, so that a checkpoint does not have it."""

    past = 0.0

    def output(self, terms: dict[str, Tensor], batch: Batch) -> StepOutput:
        self.past = 0.5 * self.past + 0.5 * float(terms["supervised"].detach())
        return StepOutput(terms | {"consistency": terms["consistency"] * (1 + self.past)})


class NeedsTwo(Sound):
    def consistency(self, distance: Tensor, valid: Tensor) -> Tensor:
        return masked_mean((distance[0] - distance[1]).square(), valid[0] & valid[1])


class Unowned(Sound):
    """A head that no optimizer moves."""

    def __init__(self, config: SoundConfig, build_network: NetworkFactory, facts: RunFacts) -> None:
        super().__init__(config, build_network, facts)
        self.head = build_network()


class ReadsSecond(Sound):
    def output(self, terms: dict[str, Tensor], batch: Batch) -> StepOutput:
        moved = self.network(batch.second.values[batch.labelled_count :]).float().square().mean()
        return StepOutput(terms | {"consistency": terms["consistency"] + moved})


class Failing(Sound):
    def consistency(self, distance: Tensor, valid: Tensor) -> Tensor:
        raise KeyError("what")


class OwnRandomNumbers(Sound):
    """Draws from a generator of its own, which each process starts anew."""

    def output(self, terms: dict[str, Tensor], batch: Batch) -> StepOutput:
        with torch.no_grad():
            self.network.get_parameter("head.bias").add_(torch.randn(1, generator=_GENERATOR))
        return StepOutput(terms)


_GENERATOR = torch.Generator()
_GENERATOR.seed()


def row_of(method: type[Method], **changes: object) -> MethodRow:
    """The row of one of these methods."""
    target = f"{method.__module__}:{method.__qualname__}"
    values: dict[str, Any] = {"target": target, **changes}
    return replace(ROW, **values)
