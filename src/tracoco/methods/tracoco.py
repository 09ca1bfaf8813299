"""TraCoCo (Liu et al., IEEE TMI 2024): translation-consistent co-training."""

from typing import Literal

import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from tracoco.config import Settings
from tracoco.data.batches import Batch
from tracoco.losses.crc import semi_supervised_loss
from tracoco.losses.supervised import supervised_loss
from tracoco.losses.translation import Overlap, translation_terms
from tracoco.losses.weighting import cosine_rampup
from tracoco.methods.method import (
    Method,
    NetworkFactory,
    RunFacts,
    evaluating,
    frozen_statistics,
    uniform_noise,
)
from tracoco.methods.mixing import check_partners, draw_mix


class TraCoCoConfig(Settings):
    """Settings of `tracoco`; the symbols are the paper's."""

    unsupervised_weight: float = Field(default=1.0, ge=0)
    """Largest lambda, Eq. (1)."""
    rampup_steps: PositiveInt | None = None
    """Steps until lambda is at its largest; a third of the run if not given."""
    consistency_weight: float = Field(default=1.0, ge=0)
    """alpha 1, Eq. (3)."""
    entropy_weight: float = Field(default=0.1, ge=0)
    """alpha 2, Eq. (3)."""
    likely: float = Field(default=0.65, ge=0, le=1)
    """gamma, Eq. (8)."""
    unlikely: float = Field(default=0.1, ge=0, le=1)
    """beta, Eq. (8)."""
    noise: float = Field(default=0.2, ge=0)
    """Half-width of xi, Eq. (2), as a fraction of the intensity range."""
    cutmix: bool = True
    pseudo_labels: Literal["clean", "training"] = "clean"
    """From a pass of their own, without noise or dropout, or from the training pass for free."""


class TraCoCo(Method):
    """Two networks that teach each other and agree with themselves under translation."""

    Config = TraCoCoConfig

    def __init__(
        self, config: TraCoCoConfig, build_network: NetworkFactory, facts: RunFacts
    ) -> None:
        super().__init__()
        if config.cutmix:
            check_partners(facts.unlabelled_batch)
        self.config = config
        self.networks = nn.ModuleList([build_network(), build_network()])
        self.noise = config.noise * facts.intensity_range
        self.rampup_steps = config.rampup_steps or max(1, facts.total_steps // 3)
        self._pseudo_labels: list[Tensor] = []

    def forward(self, batch: Batch, step: int) -> dict[str, Tensor]:
        """Eq. (1): supervised, plus lambda times semi-supervised and translation-consistent."""
        labelled = slice(batch.labelled_count)
        weight = self.config.unsupervised_weight * cosine_rampup(step, self.rampup_steps)
        first = [self._logits(network, batch.first.values) for network in self.networks]
        with frozen_statistics(self.networks):
            second = [self._logits(network, batch.second.values) for network in self.networks]
        supervised = [
            supervised_loss(logits[labelled], batch.labels, batch.first.inside[labelled])
            for logits in first
        ]
        views = [
            (here.log_softmax(dim=1), there.log_softmax(dim=1))
            for here, there in zip(first, second, strict=True)
        ]
        translation = translation_terms(
            views,
            Overlap(batch.overlaps, batch.first.inside),
            consistency_weight=weight * self.config.consistency_weight,
            entropy_weight=weight * self.config.entropy_weight,
        )
        return {
            "supervised": torch.stack(supervised).sum(),
            "crc": weight * self._semi_supervised(batch, first),
            **translation,
        }

    def inference_network(self) -> nn.Module:
        """Network 1 alone, as in the paper."""
        return self.networks[0]

    def predict_members(self, crops: Tensor) -> list[Tensor]:
        """Both networks' class probabilities."""
        return [network(crops).float().softmax(dim=1) for network in self.networks]

    def trained_networks(self) -> list[nn.Module]:
        """Both."""
        return list(self.networks)

    def health(self, batch: Batch) -> dict[str, float]:
        """Class shares of the last pseudo-labels, how many pass the gates, how far they agree."""
        inside = batch.first.inside[batch.labelled_count :]
        peers = torch.stack(self._pseudo_labels).movedim(2, -1)[:, inside]
        labels = peers.argmax(dim=-1)
        shares = labels.flatten().bincount(minlength=peers.shape[-1]) / labels.numel()
        figures = {f"share/{index}": float(share) for index, share in enumerate(shares)}
        figures["likely"] = float((peers.amax(dim=-1) >= self.config.likely).float().mean())
        figures["unlikely"] = float((peers < self.config.unlikely).float().mean())
        figures["agreement"] = float((labels[0] == labels[1]).float().mean())
        return figures

    def _logits(self, network: nn.Module, crops: Tensor) -> Tensor:
        logits: Tensor = network(uniform_noise(crops, self.noise))
        return logits.float()

    def _semi_supervised(self, batch: Batch, first: list[Tensor]) -> Tensor:
        """CRC on the unlabelled crops, Eq. (6), or on mixed ones, Eq. (10)."""
        unlabelled = slice(batch.labelled_count, None)
        crops, inside = batch.first.values[unlabelled], batch.first.inside[unlabelled]
        logits = [own[unlabelled] for own in first]
        peers = self._peers(crops, logits)
        if self.config.cutmix:
            mix = draw_mix(len(crops), tuple(inside.shape[1:]), crops.device)
            with frozen_statistics(self.networks):
                logits = [self._logits(network, mix(crops)) for network in self.networks]
            peers, inside = [mix(peer) for peer in peers], mix(inside)
        thresholds = {"likely": self.config.likely, "unlikely": self.config.unlikely}
        return semi_supervised_loss(
            (logits[0], logits[1]), (peers[0], peers[1]), inside, **thresholds
        )

    def _peers(self, crops: Tensor, logits: list[Tensor]) -> list[Tensor]:
        """The probabilities that each network offers as pseudo-labels, without gradient."""
        if self.config.pseudo_labels == "clean":
            with evaluating(self.networks):
                logits = [network(crops).float() for network in self.networks]
        self._pseudo_labels = [own.detach().softmax(dim=1) for own in logits]
        return self._pseudo_labels
