"""PatchCL (Basak and Yin, CVPR 2023): contrast of patches that pseudo-labels cut out."""

from dataclasses import dataclass
from typing import Any, cast

import torch
import torch.nn.functional as F
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from tracoco.data.batch import Batch
from tracoco.losses.consistency import mse_loss, normalised_entropy
from tracoco.losses.weighting import masked_mean, most_likely, sigmoid_rampup
from tracoco.methods.health import PseudoLabelHealth, pair_health
from tracoco.methods.method import (
    Method,
    NetworkFactory,
    RunFacts,
    StepOutput,
    unlabelled_probabilities,
)
from tracoco.methods.parts.class_patches import Labelled, PatchChooser, patch_size
from tracoco.methods.parts.student_teacher import EmaTeacher
from tracoco.networks.network import Network, with_features
from tracoco.networks.statistics import frozen_statistics
from tracoco.settings import Settings


@dataclass(frozen=True, slots=True)
class ClassDistributions:
    """Mean and covariance of each class's embeddings; both are 0 for a class without any."""

    mean: Tensor
    """[C, D]."""
    covariance: Tensor
    """[C, D, D]."""
    present: Tensor
    """Whether a class has embeddings, [C]."""


def distribution_contrast(
    embeddings: Tensor,
    label: Tensor,
    classes: ClassDistributions,
    *,
    temperature: float,
    spread: float,
    negatives: float,
) -> Tensor:
    """What each embedding v of class c loses, [N].

    It is -v.m_c / t + log(exp(a_c) + n / K sum over the others of exp(a_j)), where
    a_j = v.m_j / t + s / (2 t^2) v.S_j v is what many draws from class j come to on average.

    Args:
        embeddings: of length one, [N, D].
        label: the class of each, [N].
        classes: means m and covariances S; no gradient reaches them. Those that are not present
            are left out, K is the number of the others.
        temperature: t.
        spread: s, how much a covariance counts.
        negatives: n, how many draws the other classes stand for.
    """
    # In full precision: covariances are small and count much.
    with torch.autocast(embeddings.device.type, enabled=False):
        embeddings, mean = embeddings.float(), classes.mean.detach()
        similarity = embeddings @ mean.T / temperature
        along = torch.einsum("nd,cde,ne->nc", embeddings, classes.covariance.detach(), embeddings)
        drawn = similarity + spread / (2 * temperature**2) * along
        count = classes.present.sum().clamp(min=1)
        weight = (negatives / count * classes.present).expand_as(drawn)
        weight = weight.scatter(1, label.unsqueeze(1), 1.0)
        own = similarity.gather(1, label.unsqueeze(1)).squeeze(1)
        return (drawn + weight.log()).logsumexp(dim=1) - own


class ClassQueues(nn.Module):
    """One queue a class; the newest embeddings push the oldest out. Saved with the weights."""

    embeddings: Tensor
    filled: Tensor

    def __init__(self, classes: int, length: int, width: int) -> None:
        super().__init__()
        self.register_buffer("embeddings", torch.zeros(classes, length, width))
        self.register_buffer("filled", torch.zeros(classes, dtype=torch.long))

    @torch.no_grad()
    def push(self, embeddings: Tensor, label: Tensor) -> None:
        """Put embeddings [N, D] of some classes, [N], in front of those that are there."""
        classes, length, _ = self.embeddings.shape
        for value in range(classes):
            new = embeddings[label == value].to(self.embeddings.dtype)
            self.embeddings[value] = torch.cat([new, self.embeddings[value]])[:length]
            self.filled[value] = (self.filled[value] + len(new)).clamp(max=length)

    @torch.no_grad()
    def distributions(self) -> ClassDistributions:
        """Mean and covariance of what each queue holds."""
        places = torch.arange(self.embeddings.shape[1], device=self.filled.device)
        held = (places < self.filled.unsqueeze(1)).unsqueeze(2)
        count = self.filled.clamp(min=1).reshape(-1, 1, 1)
        with torch.autocast(self.embeddings.device.type, enabled=False):
            mean = (self.embeddings * held).sum(dim=1, keepdim=True) / count
            apart = (self.embeddings - mean) * held
            covariance = apart.mT @ apart / count
        return ClassDistributions(mean.squeeze(1), covariance, self.filled > 0)


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

    def forward(
        self, student: Embedder, teacher: Embedder, labelled: Labelled
    ) -> tuple[Tensor, Tensor]:
        """The loss, and which patches hold enough of their class to count, [N].

        Patches of the student are compared with the teacher's of this step and of earlier ones.
        """
        size = patch_size(labelled.label.shape[1:], student.network.stride)
        patches = self.chooser(labelled, size, self.config.patches)
        enough = patches.holds_enough
        own = student.embed(patches.values)
        with torch.no_grad():
            keys = teacher.embed(patches.values)
        self.queues.push(keys[enough], patches.label[enough])
        loss = distribution_contrast(
            own,
            patches.label,
            self.queues.distributions(),
            temperature=self.config.temperature,
            spread=self.config.spread,
            negatives=self.config.negatives,
        )
        return masked_mean(loss, enough), enough


class PatchCLConfig(PatchContrastConfig):
    """Settings of `patchcl`; what is not explained otherwise is as in its release."""

    contrast_weight: float = Field(default=0.5, ge=0)
    """Of the contrast, in both stages."""
    consistency_weight: float = Field(default=4.0, ge=0)
    """Largest weight of the agreement with the teacher."""
    rampup_steps: PositiveInt | None = None
    """Steps until that weight is at its largest; the whole run if not given. Ours: the release
    lacks the file."""
    pretrain: float = Field(default=0.1, ge=0, lt=1)
    """Fraction of the steps that learn from labelled crops alone; ours, a third in the release."""
    decay: float = Field(default=0.999, ge=0, lt=1)
    """Fraction of the teacher that each step keeps, once its average has warmed up."""


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
        self.contrast = PatchContrast(facts.classes, config)
        self.pretrain_steps = round(config.pretrain * facts.total_steps)
        self.rampup_steps = config.rampup_steps or facts.total_steps

    def forward(self, batch: Batch, step: int) -> StepOutput:
        """Supervised loss and contrast, and past the first stage agreement with the teacher."""
        count, first = batch.labelled_count, batch.first
        if step < self.pretrain_steps:
            logits = self.student(first.values[:count]).float()
            terms, predictions, labels = {}, (), batch.labels
        else:
            logits = self.student(first.values).float()
            prediction = self.teacher(first.values[count:])
            predictions = (*unlabelled_probabilities(batch, logits), prediction)
            weight = self.config.consistency_weight * sigmoid_rampup(step, self.rampup_steps)
            distance = mse_loss(logits[count:], prediction, first.valid[count:])
            terms = {"consistency": weight * distance}
            labels = torch.cat([batch.labels, most_likely(prediction)])
        used = slice(len(logits))
        entropy = normalised_entropy(logits.detach().softmax(dim=1))
        labelled = Labelled(first.values[used], labels, first.valid[used], entropy)
        teacher = cast("Embedder", self.teacher.network)
        contrast, enough = self.contrast(self.student, teacher, labelled)
        terms = {
            "supervised": self.labelled_loss(logits, batch),
            "contrast": self.config.contrast_weight * contrast,
            **terms,
        }
        return StepOutput(terms, (enough, *predictions))

    def after_step(self, output: StepOutput, batch: Batch, step: int) -> None:
        """Move the teacher."""
        self.teacher.update(step, self.student)

    def inference_network(self) -> nn.Module:
        """The student, without the projector."""
        return self.student.network

    def trained_networks(self) -> list[nn.Module]:
        """The student alone."""
        return [self.student.network]

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Also the projector, which is no network: only the contrast uses it."""
        return [*super().parameter_groups(), {"params": list(self.student.projector.parameters())}]

    def health(self, output: StepOutput, batch: Batch) -> PseudoLabelHealth:
        """Of the teacher's labels, and the fraction of the patches that hold enough."""
        enough, *predictions = output.pseudo_labels
        patches = float(enough.float().mean())
        if not predictions:
            return PseudoLabelHealth(further={"patches": patches})
        student, teacher = predictions
        valid = batch.first.valid[batch.labelled_count :]
        return pair_health(teacher, (student, teacher), valid, patches=patches)
