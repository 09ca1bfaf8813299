"""Contrast of patches (PatchCL): a patch is near to its class among those of earlier steps."""

import torch
import torch.nn.functional as F
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from tracoco.config import Settings
from tracoco.losses.distribution_contrast import distribution_contrast
from tracoco.losses.weighting import masked_mean
from tracoco.methods.class_patches import Labelled, PatchChooser, patch_size
from tracoco.methods.class_queues import ClassQueues
from tracoco.networks.network import Network
from tracoco.networks.statistics import frozen_statistics

PROJECTED = 128
"""Length of an embedding, as released."""


class PatchContrastConfig(Settings):
    """Settings of the contrast; what is not explained otherwise is as in PatchCL's release."""

    patches: PositiveInt = 8
    """Patches of each class and step that are compared; ours."""
    queue: PositiveInt = 4096
    """Embeddings that are kept of each class."""
    temperature: float = Field(default=0.2, gt=0)
    """What similarities are divided by."""
    spread: float = Field(default=4.0, ge=0)
    """How much the covariance of a class counts; the release's lambda."""
    negatives: float = Field(default=4096.0, gt=0)
    """How many patches the other classes stand for; the release's psi."""


class Embedder(nn.Module):
    """A network, and what projects its coarsest map of a patch to one vector.

    The release normalises by the patches of a batch. Each patch by itself serves as well, and a
    class that has none cannot disturb the others.
    """

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network
        width = network.feature_channels[-1]
        self.projector = nn.Sequential(
            nn.Linear(width, width),
            nn.LayerNorm(width),
            nn.ReLU(inplace=True),
            nn.Linear(width, PROJECTED),
            nn.LayerNorm(PROJECTED),
        )

    def forward(self, crops: Tensor) -> Tensor:
        """Logits of each class, [B, classes, ...]."""
        logits: Tensor = self.network(crops)
        return logits

    def embed(self, patches: Tensor) -> Tensor:
        """Vectors of length one, [N, D]; patches are no crops, so no statistics are counted."""
        with frozen_statistics(self.network):
            pooled = self.network.encode(patches)[-1].flatten(2).mean(dim=2)
        return F.normalize(self.projector(pooled).float(), dim=1)


class PatchContrast(nn.Module):
    """Which patches are compared, what is kept of them, and the loss."""

    def __init__(self, classes: int, config: PatchContrastConfig) -> None:
        super().__init__()
        self.chooser = PatchChooser(classes)
        self.queues = ClassQueues(classes, config.queue, PROJECTED)
        self.config = config
        # Whether each of the last patches held enough of its class, [N].
        self.enough = torch.zeros(1)

    def forward(self, student: Embedder, teacher: Embedder, labelled: Labelled) -> Tensor:
        """Patches of the student against the teacher's of this step and of earlier ones."""
        size = patch_size(labelled.label.shape[1:], student.network.stride)
        patches = self.chooser(labelled, size, self.config.patches)
        self.enough = patches.holds_enough
        own = student.embed(patches.values)
        with torch.no_grad():
            keys = teacher.embed(patches.values)
        self.queues.push(keys[self.enough], patches.label[self.enough])
        loss = distribution_contrast(
            own,
            patches.label,
            self.queues.distributions(),
            temperature=self.config.temperature,
            spread=self.config.spread,
            negatives=self.config.negatives,
        )
        return masked_mean(loss, self.enough)
