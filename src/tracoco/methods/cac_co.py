"""CAC inside co-training with CutMix, the rival of TraCoCo in the paper's ablation of CAC."""

from typing import Any

import torch
from torch import Tensor, nn

from tracoco.data.batch import Batch
from tracoco.losses.consistency import ce_loss
from tracoco.methods.method import NetworkFactory, RunFacts, labelled_losses
from tracoco.methods.parts.co_training import CoTraining, CoTrainingConfig
from tracoco.methods.parts.context_contrast import ContextContrast, ContrastConfig
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

    def forward(self, batch: Batch, step: int) -> dict[str, Tensor]:
        """Supervised, cross-entropy with the peer's labels, and the contrast of both networks."""
        looks = [
            contrast(network, batch, step)
            for network, contrast in zip(self.networks, self.contrasts, strict=True)
        ]
        first = [logits for logits, _ in looks]
        semi_supervised = self.semi_supervised(batch, first, ce_loss)
        return {
            "supervised": labelled_losses(first, batch),
            "ce": self.unsupervised_weight(step) * semi_supervised,
            "contrast": torch.stack([contrast for _, contrast in looks]).sum(),
        }

    def health(self, batch: Batch) -> dict[str, float]:
        """Also how far the first network's answers in two crops agree."""
        first = self.contrasts[0]
        assert isinstance(first, ContextContrast)  # noqa: S101 - a module list forgets the type
        return super().health(batch) | {"crop_agreement": first.figures()["crop_agreement"]}

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Also the projectors."""
        return [*super().parameter_groups(), {"params": list(self.contrasts.parameters())}]
