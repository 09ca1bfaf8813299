"""TraCoCo (Liu et al., IEEE TMI 2024): translation-consistent co-training."""

from dataclasses import replace
from functools import partial
from typing import Literal

from pydantic import Field
from torch import Tensor

from tracoco.data.batch import Batch
from tracoco.losses.consistency import ce_loss, kl_loss, mse_loss
from tracoco.losses.crc import NegativeGate, PeerLoss, crc_loss, semi_supervised_loss
from tracoco.losses.translation import Overlap, translation_terms
from tracoco.methods.health import PseudoLabelHealth, gate_fractions
from tracoco.methods.method import NetworkFactory, RunFacts, StepOutput
from tracoco.methods.parts.co_training import CoTraining, CoTrainingConfig
from tracoco.networks.statistics import frozen_statistics


class TraCoCoConfig(CoTrainingConfig):
    """Settings of `tracoco`; the symbols are the paper's, and most of the defaults."""

    semi_supervised: Literal["crc", "ce", "kl", "mse"] = "crc"
    """What a network learns from its peer: confident regional cross-entropy, or one of the
    losses that the paper's ablation puts in its place. docs/explanation/results.md has both on
    small runs."""
    gamma: float = Field(default=0.65, ge=0, le=1)
    """gamma of Eq. (8): a voxel teaches its class where the peer's largest probability is at least
    this. Of `crc` alone."""
    beta: float = Field(default=0.1, ge=0, le=1)
    """beta of Eq. (8): a class is unlearnt where the peer's probability of it is below this. Of
    `crc` alone."""
    negative_gate: NegativeGate = "class"
    """With more than two classes, what decides that a class is unlearnt; of `crc` alone. `class`:
    its own probability is below beta. `minimum`: the least probability of all classes is below
    beta, and then all but the most likely class are unlearnt, which is Eq. (8) to the letter."""
    translation: bool = True
    """Translation consistency, Eq. (3); without it the second crops are not used."""
    consistency_weight: float = Field(default=1.0, ge=0)
    """alpha 1, Eq. (3)."""
    entropy_weight: float = Field(default=0.1, ge=0)
    """alpha 2, Eq. (3)."""
    stop_gradient: bool = False
    """Treat the first crop's prediction as fixed in Eq. (4), so that only the second follows it.
    The paper names neither as the teacher, and both move; one alone was no better."""


class TraCoCo(CoTraining):
    """Two networks that teach each other and agree with themselves under translation."""

    Config = TraCoCoConfig
    config: TraCoCoConfig

    def __init__(
        self, config: TraCoCoConfig, build_network: NetworkFactory, facts: RunFacts
    ) -> None:
        super().__init__(config, build_network, facts)
        losses: dict[str, PeerLoss] = {
            "crc": partial(
                crc_loss,
                gamma=config.gamma,
                beta=config.beta,
                negative_gate=config.negative_gate,
            ),
            "ce": ce_loss,
            "kl": kl_loss,
            "mse": mse_loss,
        }
        self._loss = losses[config.semi_supervised]

    def forward(self, batch: Batch, step: int) -> StepOutput:
        """Eq. (1): the supervised loss, plus lambda times all that unlabelled crops add."""
        weight = self.unsupervised_weight(step)
        translates = self.config.translation and batch.unlabelled_counts
        first = self.logits(batch.first.values if translates else self.needed_crops(batch))
        # Eq. (3): `translation`, Eq. (4), and `entropy`, Eq. (5)
        translation = self._translation(batch, first, weight) if translates else {}
        pseudo_labels = self.pseudo_labels(batch, first)
        terms = {"supervised": self.labelled_losses(first, batch)}  # Eq. (2)
        if batch.unlabelled_counts:
            unlabelled = self.unlabelled(batch, first, pseudo_labels)  # by CutMix, Eq. (9)
            loss = semi_supervised_loss(*unlabelled, self._loss)  # Eq. (6)
            terms[self.config.semi_supervised] = weight * loss
        return StepOutput(terms | translation, pseudo_labels)

    def health(self, output: StepOutput, batch: Batch) -> PseudoLabelHealth:
        """Also how many pseudo-labels pass the gates of Eq. (8)."""
        valid = batch.first.valid[batch.labelled_count :]
        likely, unlikely = gate_fractions(
            output.pseudo_labels, valid, gamma=self.config.gamma, beta=self.config.beta
        )
        return replace(super().health(output, batch), likely=likely, unlikely=unlikely)

    def _translation(self, batch: Batch, first: list[Tensor], weight: float) -> dict[str, Tensor]:
        with frozen_statistics(self.networks):
            second = self.logits(batch.second.values)
        views = [
            (here.log_softmax(dim=1), there.log_softmax(dim=1))
            for here, there in zip(first, second, strict=True)
        ]
        return translation_terms(
            views,
            Overlap(batch.overlaps, batch.first.valid),
            consistency_weight=weight * self.config.consistency_weight,
            entropy_weight=weight * self.config.entropy_weight,
            stop_gradient=self.config.stop_gradient,
        )
