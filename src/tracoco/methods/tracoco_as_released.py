"""TraCoCo in the form of the authors' release, which produced the published numbers.

Kept: its formulas (`losses/as_released.py`), its passes, its CutMix, its ramp. Not kept, since they
only spoil a run: augmentation draws that repeat every epoch, a test case that is dropped, and a
best checkpoint that is chosen on test cases without saying so.
"""

from functools import partial
from typing import Literal

import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from tracoco.data.batches import Batch
from tracoco.losses.as_released import (
    binary_crc,
    clamped_negative_entropy,
    halved_supervised_loss,
    multiclass_crc,
    released_dice,
    spatial_divergence,
)
from tracoco.losses.translation import Overlap
from tracoco.losses.weighting import most_likely
from tracoco.methods.cotraining import TwoNetworks, TwoNetworksConfig
from tracoco.methods.method import NetworkFactory, RunFacts, uniform_noise
from tracoco.methods.mixing import Mix
from tracoco.methods.released_mixing import draw_released_mix, keep_largest_components


class TraCoCoAsReleasedConfig(TwoNetworksConfig):
    """Settings of `tracoco-as-released`; the defaults are those of its Left Atrium variant."""

    rampup: Literal["cosine", "sigmoid", "linear"] = "sigmoid"
    """How lambda rises to its largest value; the paper has a cosine."""
    rampup_epochs: PositiveInt | None = 40
    """Passes over the labelled scans, or slices of them, until lambda is at its largest."""
    noise_stays_in_range: bool = False
    """Clip noisy crops to the intensity range, as the Pancreas and BraTS variants do."""
    likely: float = Field(default=0.65, ge=0, le=1)
    """gamma."""
    unlikely: float = Field(default=0.1, ge=0, le=1)
    """beta."""
    consistency_weight: float = Field(default=0.3, ge=0)
    """alpha 1, of a divergence along a spatial axis, which is nearly nothing at any weight."""
    entropy_weight: float = Field(default=0.1, ge=0)
    """alpha 2."""
    mixed_networks: Literal["second", "both"] = "second"
    """Which networks see mixed crops; both in the ACDC variant alone."""
    pseudo_label_dice: bool = False
    """Average CRC with the Dice of all pseudo-labels, sure or not, as the ACDC variant does."""
    largest_component: bool = False
    """Keep the largest component of each class in the pseudo-labels, as the ACDC variant does."""


class TraCoCoAsReleased(TwoNetworks):
    """Three passes with gradient and one without, of all crops, for each network."""

    Config = TraCoCoAsReleasedConfig

    def __init__(
        self, config: TraCoCoAsReleasedConfig, build_network: NetworkFactory, facts: RunFacts
    ) -> None:
        super().__init__(config, build_network, facts)
        self.config = config
        self.limits = facts.intensity_limits if config.noise_stays_in_range else None
        crc = binary_crc if facts.classes == 2 else multiclass_crc
        self._crc = partial(crc, likely=config.likely, unlikely=config.unlikely)

    def forward(self, batch: Batch, step: int) -> dict[str, Tensor]:
        """The release's sum of terms; all passes are in training mode and move its statistics."""
        weight = self.unsupervised_weight(step)
        labelled = slice(batch.labelled_count)
        inside = batch.first.inside
        pairs = [
            (self._noisy(network, batch.first.values), self._noisy(network, batch.second.values))
            for network in self.networks
        ]
        supervised = [
            halved_supervised_loss(first[labelled], batch.labels, inside[labelled])
            for first, _ in pairs
        ]
        overlap = Overlap(batch.overlaps, inside)
        divergences = torch.stack([spatial_divergence(*pair, overlap) for pair in pairs])
        entropies = torch.stack([clamped_negative_entropy(*pair, overlap) for pair in pairs])
        return {
            "supervised": torch.stack(supervised).sum(),
            "crc": weight * self._semi_supervised(batch),
            "translation": weight * self.config.consistency_weight * divergences.sum(),
            "entropy": weight * self.config.entropy_weight * entropies.sum(),
        }

    def health(self, batch: Batch) -> dict[str, float]:
        """Also how many pseudo-labels pass the two thresholds."""
        gates = self.gate_figures(batch, self.config.likely, self.config.unlikely)
        return super().health(batch) | gates

    def _semi_supervised(self, batch: Batch) -> Tensor:
        """Each network learns, in a third pass, from the other's clean pass of all crops."""
        crops, inside = batch.first.values, batch.first.inside
        with torch.no_grad():
            clean = [network(crops).float() for network in self.networks]
        if self.config.largest_component:
            clean = [keep_largest_components(logits) for logits in clean]
        unlabelled = slice(batch.labelled_count, None)
        self._pseudo_labels = [logits.softmax(dim=1)[unlabelled] for logits in clean]
        losses = []
        for index, network in enumerate(self.networks):
            mix = self._draw_mix(index, len(crops), inside.shape[1:]).to(crops.device)
            logits = self._noisy(network, mix(crops))[unlabelled]
            peer = mix(clean[1 - index]).softmax(dim=1)[unlabelled]
            losses.append(self._taught(logits, peer, mix(inside)[unlabelled]))
        return torch.stack(losses).sum()

    def _taught(self, logits: Tensor, peer: Tensor, inside: Tensor) -> Tensor:
        crc = self._crc(logits, peer, inside)
        if not self.config.pseudo_label_dice:
            return crc
        return (crc + released_dice(logits, most_likely(peer), inside)) / 2

    def _noisy(self, network: nn.Module, crops: Tensor) -> Tensor:
        noisy = uniform_noise(crops, self.noise)
        logits: Tensor = network(noisy if self.limits is None else noisy.clamp(*self.limits))
        return logits.float()

    def _draw_mix(self, network: int, count: int, size: torch.Size) -> Mix:
        if network == 0 and self.config.mixed_networks == "second":
            return Mix(torch.arange(count), torch.zeros((count, *size), dtype=torch.bool))
        return draw_released_mix(count, size)
