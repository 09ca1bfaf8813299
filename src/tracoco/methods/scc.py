"""SCC (Liu et al., CMIG 2022): contrast between the class vectors of labelled and other crops."""

from typing import Any

import torch
from pydantic import Field, PositiveInt
from torch import Tensor

from tracoco.config import Settings
from tracoco.data.batches import Batch
from tracoco.losses.class_vectors import class_contrast
from tracoco.losses.weighting import sigmoid_rampup
from tracoco.methods.class_projector import ClassProjector
from tracoco.methods.decoders import SeveralDecoders
from tracoco.methods.method import NetworkFactory, RunFacts
from tracoco.methods.shared_encoder import PredictWith, SharedEncoder
from tracoco.networks.layers import Up


class SCCConfig(Settings):
    """Settings of `scc`, by default those of its release."""

    contrast_weight: float = Field(default=1.0, ge=0)
    """Largest weight of the contrast."""
    rampup_steps: PositiveInt | None = None
    """Steps until the weight is at its largest; the whole run if not given. With 1 it is constant,
    as it may have been for the published numbers."""
    temperature: float = Field(default=1.0, gt=0)
    """What similarities are divided by."""
    train_projector: bool = False
    """Whether the network that makes the class vectors learns. The release's optimizer does not
    know it, so that it stays what it was at first."""
    decoders: tuple[Up, ...] = Field(default=("transpose", "linear"), min_length=2)
    """How each decoder doubles the resolution."""
    predict_with: PredictWith = "mean"
    """The mean of the decoders, as released, or the first alone."""


class SCC(SharedEncoder):
    """Two decoders; class by class, unlabelled crops must resemble labelled ones."""

    Config = SCCConfig

    def __init__(self, config: SCCConfig, build_network: NetworkFactory, facts: RunFacts) -> None:
        decoders = SeveralDecoders("scc", build_network, config.decoders)
        super().__init__(decoders, config.predict_with)
        self.config = config
        self.projector = ClassProjector(facts.classes, facts.dimensions)
        self.projector.requires_grad_(config.train_projector)
        self.rampup_steps = config.rampup_steps or facts.total_steps

    def forward(self, batch: Batch, step: int) -> dict[str, Tensor]:
        """The mean of the decoders' supervised losses, and of their contrasts."""
        logits = self.decoders(batch.first.values)
        self.remember(batch, logits)
        contrasts = torch.stack([self._contrast(batch, each) for each in logits])
        weight = self.config.contrast_weight * sigmoid_rampup(step, self.rampup_steps)
        return {
            "supervised": self.supervised(batch, logits).mean(),
            "contrast": weight * contrasts.mean(),
        }

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Also the projector, if it learns; it is no network that predicts."""
        groups = super().parameter_groups()
        if self.config.train_projector:
            groups.append({"params": list(self.projector.parameters())})
        return groups

    def _contrast(self, batch: Batch, logits: Tensor) -> Tensor:
        vectors = self.projector(logits, batch.first.inside)
        labelled, unlabelled = vectors[: batch.labelled_count], vectors[batch.labelled_count :]
        return class_contrast(labelled, unlabelled, temperature=self.config.temperature)
