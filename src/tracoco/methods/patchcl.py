"""PatchCL (Basak and Yin, CVPR 2023): contrast of patches that pseudo-labels cut out."""

from typing import Any, cast

import torch
import torch.nn.functional as F
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from tracoco.config import Settings
from tracoco.data.batches import Batch
from tracoco.losses.consistency import mse_loss
from tracoco.losses.distribution_contrast import distribution_contrast
from tracoco.losses.supervised import supervised_loss
from tracoco.losses.weighting import masked_mean, most_likely, sigmoid_rampup
from tracoco.methods.class_patches import Labelled, PatchChooser, patch_size
from tracoco.methods.class_queues import ClassQueues
from tracoco.methods.ema import EmaTeacher
from tracoco.methods.figures import class_shares, divergence_figures
from tracoco.methods.method import Method, NetworkFactory, RunFacts
from tracoco.networks.network import Network, with_features
from tracoco.networks.statistics import frozen_statistics

PROJECTED = 128
"""Length of an embedding, as released."""


class PatchCLConfig(Settings):
    """Settings of `patchcl`; what is not explained otherwise is as in its release."""

    contrast_weight: float = Field(default=0.5, ge=0)
    consistency_weight: float = Field(default=4.0, ge=0)
    """Largest weight of the agreement with the teacher."""
    rampup_steps: PositiveInt | None = None
    """Steps until that weight is at its largest; the whole run if not given. Ours: the release
    lacks the file."""
    pretrain: float = Field(default=0.1, ge=0, lt=1)
    """Share of the steps that learn from labelled crops alone; ours, a third in the release."""
    decay: float = Field(default=0.999, ge=0, lt=1)
    """Share of the teacher that each step keeps, once its average has warmed up."""
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


class PatchCL(Method):
    """A student whose patches of a class look alike, and the teacher that is its average.

    The release cannot be run, so this is a reading of it. Its filter throws away the patches that
    hold enough of a class; here it keeps them, and its thresholds follow in the other direction.
    Samples between classes are left out, which the release has a way around too. The learning
    rate of the second stage is the run's, without a restart.
    """

    Config = PatchCLConfig

    def __init__(
        self, config: PatchCLConfig, build_network: NetworkFactory, facts: RunFacts
    ) -> None:
        super().__init__()
        self.config = config
        self.student = Embedder(with_features(build_network(), "patchcl"))
        self.teacher = EmaTeacher(self.student, config.decay)
        self.chooser = PatchChooser(facts.classes)
        self.queues = ClassQueues(facts.classes, config.queue, PROJECTED)
        self.pretrain_steps = round(config.pretrain * facts.total_steps)
        self.rampup_steps = config.rampup_steps or facts.total_steps
        self._answers: tuple[Tensor, Tensor] | None = None
        self._enough = torch.zeros(1)

    def forward(self, batch: Batch, step: int) -> dict[str, Tensor]:
        """Supervised loss and contrast, and past the first stage agreement with the teacher."""
        count, first = batch.labelled_count, batch.first
        if step < self.pretrain_steps:
            logits = self.student(first.values[:count]).float()
            terms, labels = {}, batch.labels
        else:
            logits = self.student(first.values).float()
            answer = self.teacher(first.values[count:])
            self._answers = (logits[count:].detach().softmax(dim=1), answer)
            weight = self.config.consistency_weight * sigmoid_rampup(step, self.rampup_steps)
            distance = mse_loss(logits[count:], answer, first.inside[count:])
            terms = {"consistency": weight * distance}
            labels = torch.cat([batch.labels, most_likely(answer)])
        used = len(logits)
        inside = first.inside[:used]
        labelled = Labelled(first.values[:used], labels, inside, _entropy(logits.detach()))
        return {
            "supervised": supervised_loss(logits[:count], batch.labels, inside[:count]),
            "contrast": self.config.contrast_weight * self._contrast(labelled),
            **terms,
        }

    def after_step(self, step: int) -> None:
        """Move the teacher."""
        self.teacher.update(step, self.student)

    def inference_network(self) -> nn.Module:
        """The student, without the projector."""
        return self.student.network

    def trained_networks(self) -> list[nn.Module]:
        """The student alone."""
        return [self.student.network]

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Also the projector, which is no network: nothing but the contrast looks through it."""
        return [*super().parameter_groups(), {"params": list(self.student.projector.parameters())}]

    def health(self, batch: Batch) -> dict[str, float]:
        """Of the teacher's last labels, and the share of the patches that hold enough."""
        patches = {"patches": float(self._enough.float().mean())}
        if self._answers is None:
            return patches
        student, teacher = self._answers
        inside = batch.first.inside[batch.labelled_count :]
        shares = class_shares(most_likely(teacher), teacher.shape[1], inside)
        return shares | divergence_figures(student, teacher, inside) | patches

    def _contrast(self, labelled: Labelled) -> Tensor:
        """Patches of the student against the teacher's of this step and of earlier ones."""
        size = patch_size(labelled.label.shape[1:], self.student.network.stride)
        patches = self.chooser(labelled, size, self.config.patches)
        self._enough = patches.holds_enough
        own = self.student.embed(patches.values)
        with torch.no_grad():
            keys = cast("Embedder", self.teacher.network).embed(patches.values)
        self.queues.push(keys[patches.holds_enough], patches.label[patches.holds_enough])
        loss = distribution_contrast(
            own,
            patches.label,
            self.queues.distributions(),
            temperature=self.config.temperature,
            spread=self.config.spread,
            negatives=self.config.negatives,
        )
        return masked_mean(loss, patches.holds_enough)


def _entropy(logits: Tensor) -> Tensor:
    log_probability = logits.log_softmax(dim=1)
    return -(log_probability.exp() * log_probability).sum(dim=1)
