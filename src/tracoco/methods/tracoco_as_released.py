"""TraCoCo in the form of the authors' release, which produced the published numbers.

Kept: its formulas, its passes, its CutMix, its ramp. What each formula does otherwise than the
paper is in its docstring, and docs/explanation/paper.md has all. Not kept, since they only spoil a
run: augmentation draws that repeat every epoch, a test case that is dropped, and a best checkpoint
that is chosen on test cases without saying so.
"""

from dataclasses import replace
from functools import partial
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field, PositiveInt
from torch import Tensor, nn
from torch.distributions import Beta

from tracoco.components import keep_largest
from tracoco.data.batch import Batch
from tracoco.losses.supervised import class_dice_losses, cross_entropy
from tracoco.losses.translation import Overlap
from tracoco.losses.weighting import masked_mean, most_likely
from tracoco.methods.health import PseudoLabelHealth, gate_fractions
from tracoco.methods.method import (
    NetworkFactory,
    RunFacts,
    StepOutput,
    uniform_noise,
    unlabelled_probabilities,
)
from tracoco.methods.parts.co_training import Peers, Ramp, TwoNetworksConfig
from tracoco.methods.parts.cutmix import Mix

SMALLEST = 1e-6
"""Where the release clamps: logits from below, and 1 - p before its logarithm."""


def halved_supervised_loss(logits: Tensor, label: Tensor, valid: Tensor) -> Tensor:
    """Half of cross-entropy plus Dice: in effect, lambda is twice what it says."""
    return (cross_entropy(logits, label, valid) + released_dice(logits, label, valid)) / 2


def released_dice(logits: Tensor, label: Tensor, valid: Tensor) -> Tensor:
    """Dice of the foreground alone for two classes, of all classes with the background for more."""
    losses = class_dice_losses(logits, label, valid)
    return losses[1] if len(losses) == 2 else losses.mean()


def spatial_divergence(first: Tensor, second: Tensor, overlap: Overlap) -> Tensor:
    """KL(second || first) along the first spatial axis, where the paper has it over classes.

    Softmax of clamped logits is taken along that axis, so this asks where along a line they are
    large, not which class is likely. A mean over classes and voxels, summed over the crops.
    """
    divergences = []
    for index, (here, there) in enumerate(overlap.boxes):
        own = _clamped(first[index][:, *here.slices]).log_softmax(dim=1)
        other = _clamped(second[index][:, *there.slices]).log_softmax(dim=1)
        valid = overlap.mask(index)
        mask = None if valid is None else valid.expand_as(own)
        divergences.append(masked_mean(other.exp() * (other - own), mask))
    return torch.stack(divergences).sum()


def clamped_negative_entropy(first: Tensor, second: Tensor, overlap: Overlap) -> Tensor:
    """Negative entropy, a mean over crops, of logits clamped to [1e-6, 1]: no gradient outside."""
    entropies = []
    for index, (here, there) in enumerate(overlap.boxes):
        valid = overlap.mask(index)
        for logits in (first[index][:, *here.slices], second[index][:, *there.slices]):
            log_probability = _clamped(logits).log_softmax(dim=0)
            voxels = (log_probability.exp() * log_probability).sum(dim=0)
            entropies.append(masked_mean(voxels, valid))
    return torch.stack(entropies).mean()


def binary_crc(logits: Tensor, peer: Tensor, valid: Tensor, *, gamma: float, beta: float) -> Tensor:
    """CRC with another negative weight: the smallest probability, where the paper has 1 minus it.

    For two classes it is a cross-entropy of confident voxels: the negative part counts almost
    nothing. Each part is the mean of the voxels that pass its gate, not of all voxels.
    """
    peer = peer.detach()
    negative = -_log_complement(logits).gather(1, 1 - most_likely(peer).unsqueeze(1))
    return _gated_positive(logits, peer, valid, gamma) + _gated_negative(
        negative, peer, valid, beta
    )


def multiclass_crc(
    logits: Tensor, peer: Tensor, valid: Tensor, *, gamma: float, beta: float
) -> Tensor:
    """The same for more classes, where the release inverts the one-hot labels bit by bit.

    That makes 0 into -1, as meant, but 1 into -2: twice over, the term also unlearns the class
    that the peer is sure of.
    """
    peer = peer.detach()
    one_hot = F.one_hot(most_likely(peer), logits.shape[1]).movedim(-1, 1)
    negative = ~one_hot * _log_complement(logits)
    return _gated_positive(logits, peer, valid, gamma) + _gated_negative(
        negative, peer, valid, beta
    )


def _gated_positive(logits: Tensor, peer: Tensor, valid: Tensor, gamma: float) -> Tensor:
    confidence, label = peer.max(dim=1)
    learnt = confidence * F.cross_entropy(logits, label, reduction="none")
    return masked_mean(learnt, valid & (confidence >= gamma))


def _gated_negative(terms: Tensor, peer: Tensor, valid: Tensor, beta: float) -> Tensor:
    """Mean over the classes of the voxels whose least likely class is below the threshold."""
    least = peer.amin(dim=1, keepdim=True)
    gate = valid.unsqueeze(1) & (least < beta)
    return masked_mean(least * terms, gate.expand_as(terms))


def _log_complement(logits: Tensor) -> Tensor:
    """log(1 - p), flat where 1 - p is below the clamp."""
    return (1 - logits.softmax(dim=1)).clamp(min=SMALLEST).log()


def _clamped(logits: Tensor) -> Tensor:
    return logits.clamp(SMALLEST, 1.0)


def draw_released_mix(count: int, size: torch.Size) -> Mix:
    """A box in the first two axes through all of the others; a crop may be its own partner.

    All boxes of a batch have one size; the centre is never in the first eighth of an axis, and a
    box that would stick out is cut off.
    """
    fraction = float((1 - Beta(4.0, 4.0).sample()).sqrt())
    mask = torch.zeros((count, *size), dtype=torch.bool)
    for index in range(count):
        box = []
        for length in size[:2]:
            half = int(length * fraction) // 2
            centre = int(torch.randint(length // 8, length, ()))
            box.append(slice(max(0, centre - half), min(length, centre + half)))
        mask[index][tuple(box)] = True
    return Mix(torch.randperm(count), mask)


def keep_largest_components(logits: Tensor) -> Tensor:
    """Logits times a mask of the largest component of each class, fully connected, crop by crop.

    A voxel that is taken from its class keeps its background's logit alone, which may not be its
    largest. Crops of which all are of one class are left as they are.
    """
    labels = most_likely(logits).cpu().numpy()
    if len(np.unique(labels)) == 1:
        return logits
    kept = np.stack([keep_largest(label) for label in labels])
    chosen = torch.from_numpy(kept).to(logits.device)
    return logits * nn.functional.one_hot(chosen, logits.shape[1]).movedim(-1, 1)


class TraCoCoAsReleasedConfig(TwoNetworksConfig):
    """Settings of `tracoco-as-released`; the defaults are those of its Left Atrium variant."""

    rampup: Literal["cosine", "sigmoid", "linear"] = "sigmoid"
    """How lambda rises to its largest value; the paper has a cosine."""
    rampup_epochs: PositiveInt | None = 40
    """Passes over the labelled scans, or slices of them, until lambda is at its largest."""
    noise_stays_in_range: bool = False
    """Clip noisy crops to the intensity range, as the Pancreas and BraTS variants do."""
    gamma: float = Field(default=0.65, ge=0, le=1)
    """gamma of Eq. (8): a voxel teaches its class where the peer's largest probability is at least
    this."""
    beta: float = Field(default=0.1, ge=0, le=1)
    """beta of Eq. (8): the other classes of a voxel are unlearnt where the peer's smallest
    probability is below this."""
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


class TraCoCoAsReleased(Peers):
    """Three passes with gradient and one without, of all crops, for each network."""

    Config = TraCoCoAsReleasedConfig

    def __init__(
        self, config: TraCoCoAsReleasedConfig, build_network: NetworkFactory, facts: RunFacts
    ) -> None:
        super().__init__(build_network(), build_network())
        self.config = config
        self.noise = config.noise * facts.intensity_range
        self.unsupervised_weight = Ramp(config, facts)
        self.limits = facts.intensity_limits if config.noise_stays_in_range else None
        crc = binary_crc if facts.classes == 2 else multiclass_crc
        self._crc = partial(crc, gamma=config.gamma, beta=config.beta)

    def forward(self, batch: Batch, step: int) -> StepOutput:
        """The release's sum of terms; all passes are in training mode and move its statistics."""
        weight = self.unsupervised_weight(step)
        labelled = slice(batch.labelled_count)
        valid = batch.first.valid
        pairs = [
            (self._noisy(network, batch.first.values), self._noisy(network, batch.second.values))
            for network in self.networks
        ]
        supervised = [
            halved_supervised_loss(first[labelled], batch.labels, valid[labelled])
            for first, _ in pairs
        ]
        overlap = Overlap(batch.overlaps, valid)
        divergences = torch.stack([spatial_divergence(*pair, overlap) for pair in pairs])
        entropies = torch.stack([clamped_negative_entropy(*pair, overlap) for pair in pairs])
        clean = self._clean_logits(batch.first.values)
        terms = {
            "supervised": torch.stack(supervised).sum(),
            "crc": weight * self._semi_supervised(batch, clean),
            "translation": weight * self.config.consistency_weight * divergences.sum(),
            "entropy": weight * self.config.entropy_weight * entropies.sum(),
        }
        return StepOutput(terms, unlabelled_probabilities(batch, *clean))

    def health(self, output: StepOutput, batch: Batch) -> PseudoLabelHealth:
        """Also how many pseudo-labels pass the two thresholds."""
        valid = batch.first.valid[batch.labelled_count :]
        likely, unlikely = gate_fractions(
            output.pseudo_labels, valid, gamma=self.config.gamma, beta=self.config.beta
        )
        return replace(super().health(output, batch), likely=likely, unlikely=unlikely)

    def _clean_logits(self, crops: Tensor) -> list[Tensor]:
        """What each network says of all crops without noise and gradient."""
        with torch.no_grad():
            clean = [network(crops).float() for network in self.networks]
        if self.config.largest_component:
            clean = [keep_largest_components(logits) for logits in clean]
        return clean

    def _semi_supervised(self, batch: Batch, clean: list[Tensor]) -> Tensor:
        """Each network learns, in a third pass, from the other's clean pass of all crops."""
        crops, valid = batch.first.values, batch.first.valid
        unlabelled = slice(batch.labelled_count, None)
        losses = []
        for index, network in enumerate(self.networks):
            mix = self._draw_mix(index, len(crops), valid.shape[1:]).to(crops.device)
            logits = self._noisy(network, mix(crops))[unlabelled]
            peer = mix(clean[1 - index]).softmax(dim=1)[unlabelled]
            losses.append(self._peer_loss(logits, peer, mix(valid)[unlabelled]))
        return torch.stack(losses).sum()

    def _peer_loss(self, logits: Tensor, peer: Tensor, valid: Tensor) -> Tensor:
        crc = self._crc(logits, peer, valid)
        if not self.config.pseudo_label_dice:
            return crc
        return (crc + released_dice(logits, most_likely(peer), valid)) / 2

    def _noisy(self, network: nn.Module, crops: Tensor) -> Tensor:
        noisy = uniform_noise(crops, self.noise)
        logits: Tensor = network(noisy if self.limits is None else noisy.clamp(*self.limits))
        return logits.float()

    def _draw_mix(self, network: int, count: int, size: torch.Size) -> Mix:
        if network == 0 and self.config.mixed_networks == "second":
            return Mix(torch.arange(count), torch.zeros((count, *size), dtype=torch.bool))
        return draw_released_mix(count, size)
