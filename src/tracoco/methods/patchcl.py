"""PatchCL (Basak and Yin, CVPR 2023): contrast of patches that pseudo-labels cut out."""

from typing import Any, cast

import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from tracoco.data.batches import Batch
from tracoco.losses.consistency import mse_loss
from tracoco.losses.uncertainty import normalised_entropy
from tracoco.losses.weighting import most_likely, sigmoid_rampup
from tracoco.methods.class_patches import Labelled
from tracoco.methods.ema import EmaTeacher
from tracoco.methods.figures import answer_shares, divergence_figures
from tracoco.methods.method import Method, NetworkFactory, RunFacts, labelled_loss
from tracoco.methods.patch_contrast import Embedder, PatchContrast, PatchContrastConfig
from tracoco.networks.network import with_features


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
    """Share of the steps that learn from labelled crops alone; ours, a third in the release."""
    decay: float = Field(default=0.999, ge=0, lt=1)
    """Share of the teacher that each step keeps, once its average has warmed up."""


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
        self._answers: tuple[Tensor, Tensor] | None = None

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
        used = slice(len(logits))
        entropy = normalised_entropy(logits.detach().softmax(dim=1))
        labelled = Labelled(first.values[used], labels, first.inside[used], entropy)
        teacher = cast("Embedder", self.teacher.network)
        contrast = self.contrast(self.student, teacher, labelled)
        return {
            "supervised": labelled_loss(logits, batch),
            "contrast": self.config.contrast_weight * contrast,
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
        patches = {"patches": float(self.contrast.enough.float().mean())}
        if self._answers is None:
            return patches
        student, teacher = self._answers
        inside = batch.first.inside[batch.labelled_count :]
        shares = answer_shares(teacher, inside)
        return shares | divergence_figures(student, teacher, inside) | patches
