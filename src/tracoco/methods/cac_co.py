"""CAC inside co-training with CutMix, the rival of TraCoCo in the paper's ablation of CAC."""

from dataclasses import replace
from typing import Any

import torch
from torch import nn

from tracoco.data.batch import Batch
from tracoco.losses.consistency import ce_loss
from tracoco.losses.crc import semi_supervised_loss
from tracoco.methods.health import PseudoLabelHealth, peer_health
from tracoco.methods.method import NetworkFactory, RunFacts, StepOutput
from tracoco.methods.parts.co_training import CoTraining, CoTrainingConfig
from tracoco.methods.parts.context_contrast import ContextContrast, ContrastConfig, crop_agreement
from tracoco.networks.network import with_features


class CACCoConfig(CoTrainingConfig, ContrastConfig):
    """Settings of `cac-co`: those of co-training, and those of the contrast."""


class CACCo(CoTraining):
    """Cross pseudo supervision of two networks, and the contrast of each network by itself."""

    Config = CACCoConfig

    def __init__(self, config: CACCoConfig, build_network: NetworkFactory, facts: RunFacts) -> None:
        super().__init__(config, build_network, facts)
        self.contrasts = nn.ModuleList(
            ContextContrast(with_features(network, "cac-co"), config, config.noise, facts)
            for network in self.networks
        )

    def forward(self, batch: Batch, step: int) -> StepOutput:
        """Supervised, cross-entropy with the peer's labels, and the contrast of both networks."""
        contrasts = [
            contrast(network, batch, step)
            for network, contrast in zip(self.networks, self.contrasts, strict=True)
        ]
        first = [contrast.logits for contrast in contrasts]
        pseudo_labels = self.pseudo_labels(batch, first)
        unlabelled = self.unlabelled(batch, first, pseudo_labels)
        terms = {
            "supervised": self.labelled_losses(first, batch),
            "ce": self.unsupervised_weight(step) * semi_supervised_loss(*unlabelled, ce_loss),
            "contrast": torch.stack([contrast.loss for contrast in contrasts]).sum(),
        }
        return StepOutput(terms, (*pseudo_labels, contrasts[0].labels))

    def health(self, output: StepOutput, batch: Batch) -> PseudoLabelHealth:
        """Also how far the first network's predictions in two crops agree."""
        *pseudo_labels, labels = output.pseudo_labels
        health = peer_health(pseudo_labels, batch.first.valid[batch.labelled_count :])
        return replace(health, further={"crop_agreement": crop_agreement(labels)})

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Also the projectors."""
        return [*super().parameter_groups(), {"params": list(self.contrasts.parameters())}]
