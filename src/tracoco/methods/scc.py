"""SCC (Liu et al., CMIG 2022): contrast between the class vectors of labelled and other crops."""

from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from tracoco.data.batch import Batch
from tracoco.losses.weighting import sigmoid_rampup
from tracoco.methods.method import NetworkFactory, RunFacts, StepOutput, unlabelled_probabilities
from tracoco.methods.parts.decoders import PredictWith, SeveralDecoders, SharedEncoder
from tracoco.networks.network import CONVOLUTION, Up
from tracoco.settings import Settings


def class_contrast(labelled: Tensor, unlabelled: Tensor, *, temperature: float) -> Tensor:
    """Attract vectors of one class, repel those of others; a sum over classes, a mean over pairs.

    For each class of a labelled crop: minus its cosine similarity to the same class of an
    unlabelled crop, plus the mean of those to the other classes. The published form is the one for
    two classes. Crops are paired in their order, or each with each where their numbers differ.

    Args:
        labelled: a vector for each class of the labelled crops, [L, C, D].
        unlabelled: the same of the unlabelled crops, [U, C, D].
        temperature: what similarities are divided by.
    """
    classes = labelled.shape[1]
    if len(labelled) != len(unlabelled):
        counts = len(labelled), len(unlabelled)
        labelled = labelled.repeat_interleave(counts[1], dim=0)
        unlabelled = unlabelled.repeat(counts[0], 1, 1)
    similarity = F.normalize(labelled, dim=2) @ F.normalize(unlabelled, dim=2).mT
    same = torch.eye(classes, device=labelled.device)
    others = (1 - same) / (classes - 1)
    return ((others - same) * similarity).sum(dim=(1, 2)).mean() / temperature


WIDTHS = (1, 64, 128, 256, 512)
SMALLEST = 2 ** (len(WIDTHS) - 1)
"""Voxels along an axis that can be halved so often."""


class ClassProjector(nn.Module):
    """Four convolutions that halve the resolution, a mean over space, two linear layers."""

    def __init__(self, classes: int, dimensions: int) -> None:
        super().__init__()
        convolution = CONVOLUTION[dimensions]
        dropout = {2: nn.Dropout2d, 3: nn.Dropout3d}[dimensions]
        layers: list[nn.Module] = []
        for narrow, wide in pairwise(WIDTHS):
            layers += [convolution(narrow, wide, kernel_size=4, stride=2, padding=1)]
            layers += [nn.LeakyReLU(0.2, inplace=True), dropout(0.5)]
        self.convolutions = nn.Sequential(*layers[:-1])
        self.vectors = nn.Sequential(
            nn.Linear(WIDTHS[-1], WIDTHS[-1]), nn.Linear(WIDTHS[-1], classes)
        )

    def forward(self, logits: Tensor, valid: Tensor) -> Tensor:
        """A vector that sums to 1 for each class of each crop, [B, C, classes].

        Args:
            logits: of the crops, [B, C, ...]; each class is taken by itself.
            valid: false where the crops are padding, [B, ...]; there the maps are taken as 0, as
                around the crops.
        """
        maps = (logits * valid.unsqueeze(1)).flatten(0, 1).unsqueeze(1)
        features = self.convolutions(F.pad(maps, _missing(maps)))
        vectors: Tensor = self.vectors(features.flatten(2).mean(dim=2)).float()
        return torch.unflatten(vectors.softmax(dim=1), 0, logits.shape[:2])


def _missing(maps: Tensor) -> list[int]:
    """Voxels that axes lack to be halved, last axis first, as `F.pad` wants them."""
    return [
        count for length in reversed(maps.shape[2:]) for count in (0, max(0, SMALLEST - length))
    ]


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

    def forward(self, batch: Batch, step: int) -> StepOutput:
        """The mean of the decoders' supervised losses, and of their contrasts."""
        logits = self.decoders(batch.first.values)
        contrasts = torch.stack([self._contrast(batch, each) for each in logits])
        weight = self.config.contrast_weight * sigmoid_rampup(step, self.rampup_steps)
        terms = {
            "supervised": self.supervised(batch, logits).mean(),
            "contrast": weight * contrasts.mean(),
        }
        return StepOutput(terms, unlabelled_probabilities(batch, *logits[:2]))

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Also the projector, if it learns; it is no network that predicts."""
        groups = super().parameter_groups()
        if self.config.train_projector:
            groups.append({"params": list(self.projector.parameters())})
        return groups

    def _contrast(self, batch: Batch, logits: Tensor) -> Tensor:
        vectors = self.projector(logits, batch.first.valid)
        labelled, unlabelled = vectors[: batch.labelled_count], vectors[batch.labelled_count :]
        return class_contrast(labelled, unlabelled, temperature=self.config.temperature)
