"""AD-MT (Zhao et al., ECCV 2024): two teachers that follow the student in random turns."""

import math
from typing import Literal, cast

import torch
import torch.nn.functional as F
from pydantic import Field, NonNegativeInt, PositiveInt
from torch import Tensor, nn

from tracoco.data.batch import Batch
from tracoco.losses.consistency import normalised_entropy
from tracoco.losses.supervised import class_dice_losses
from tracoco.losses.weighting import masked_mean, most_likely, sigmoid_rampup
from tracoco.methods.health import PseudoLabelHealth, sure_pair_health
from tracoco.methods.method import (
    Method,
    NetworkFactory,
    RunFacts,
    StepOutput,
    evaluating,
    unlabelled_probabilities,
)
from tracoco.methods.parts.cutmix import check_partners, draw_mix
from tracoco.methods.parts.strong_view import strong_view
from tracoco.methods.parts.student_teacher import CleanPass, EmaTeacher, clean_pass
from tracoco.networks.statistics import mixes_kinds
from tracoco.settings import Settings


def entropy_ensemble(first: Tensor, second: Tensor) -> Tensor:
    """The mean of two predictions [B, C, ...], each weighted by exp(-entropy), in bits."""
    bits = math.log2(first.shape[1])
    entropies = [bits * normalised_entropy(each) for each in (first, second)]
    weights = torch.stack(entropies).neg().softmax(dim=0).unsqueeze(2)
    return weights[0] * first + weights[1] * second


def settle_conflicts(ensemble: Tensor, student: Tensor, conflict: Tensor) -> Tensor:
    """The student's prediction where teachers disagree and it is surer of another class.

    Args:
        ensemble: probabilities of both teachers together, [B, C, ...].
        student: those of the student for the same voxels.
        conflict: true where the teachers' most likely classes differ, [B, ...].
    """
    other = most_likely(student) != most_likely(ensemble)
    surer = student.amax(dim=1) > ensemble.amax(dim=1)
    return torch.where((conflict & other & surer).unsqueeze(1), student, ensemble)


def draw_turns(steps: int, longest: int) -> list[int]:
    """Which teacher follows the student at each step: 0 or 1, in turns of 1 to `longest` steps.

    They are the same in every run, so that all processes of a run, and one that goes on, agree.
    """
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(1, longest + 1, (steps,), generator=generator, device="cpu")
    order = torch.arange(steps, device="cpu") % 2
    turns: list[int] = order.repeat_interleave(lengths)[:steps].tolist()
    return turns


class ADMTConfig(Settings):
    """Settings of `ad-mt`, by default those of its release for the left atrium.

    The release halves the supervised loss. Here it is whole, as in every method, and so the weight
    of unlabelled crops is twice as large.
    """

    unsupervised_weight: float = Field(default=4.0, ge=0)
    """Largest weight of the teachers' labels; 2 in the release, beside half of the supervised
    loss."""
    rampup_steps: PositiveInt | None = None
    """Steps until the weight is at its largest; 40 % of the run if not given, as 6,000 of the
    release's 15,000."""
    threshold: float = Field(default=0.8, ge=0, le=1)
    """A voxel teaches where the largest probability is at least this; 0.95 in the release for
    ACDC."""
    loss_form: Literal["ce", "dice"] = "ce"
    """Mean cross-entropy of the voxels that teach, or the Dice of all classes there, as in the
    release for ACDC."""
    turn_steps: PositiveInt = 19
    """Longest turn of a teacher; the length of each is drawn. In the release it is half a pass over
    the unlabelled scans: 19 steps for the left atrium, 50 for ACDC."""
    decay: float = Field(default=0.99, ge=0, lt=1)
    """Fraction of the teacher whose turn it is that each step keeps, once its average has warmed
    up."""
    copy_steps: NonNegativeInt | None = None
    """First steps, in which the teacher whose turn it is becomes the student; 0.5 % of the run if
    not given, as 80 of the release's 15,000."""
    cutmix: bool = True
    """While the second teacher follows, put a box of another crop into each one, as in the release;
    if not, strong views change intensities then too."""
    pseudo_labels: CleanPass | Literal["alternate"] = "alternate"
    """How teachers are asked. `alternate`: the one whose turn it is in training mode, with dropout
    and by BatchNorm's statistics of the batch, the other one as at test time, as in the release;
    `batch` and `clean`: both without dropout, by the statistics of the batch or by running ones."""


class ADMT(Method):
    """A student, and two averages of it that see other steps and other kinds of strong views.

    While the first teacher follows, the student learns from views with other intensities; while
    the second does, from crops with boxes of each other.
    """

    Config = ADMTConfig

    def __init__(self, config: ADMTConfig, build_network: NetworkFactory, facts: RunFacts) -> None:
        super().__init__()
        if config.cutmix:
            check_partners(facts.unlabelled_batch, None, facts.dimensions)
        self.config = config
        self.student = build_network()
        self.teachers = nn.ModuleList(
            EmaTeacher(self.student, config.decay, average_statistics=True) for _ in range(2)
        )
        self.limits = facts.intensity_limits
        steps = facts.total_steps
        self.rampup_steps = config.rampup_steps or max(1, round(0.4 * steps))
        copied = config.copy_steps
        self.copy_steps = round(80 / 15_000 * steps) if copied is None else copied
        self._turns = draw_turns(steps, config.turn_steps)

    def turn(self, step: int) -> int:
        """The teacher that follows the student at this step, 0 or 1."""
        return self._turns[step % len(self._turns)]

    def forward(self, batch: Batch, step: int) -> StepOutput:
        """Supervised loss, and what both teachers together teach about a changed view."""
        unlabelled = slice(batch.labelled_count, None)
        crops, valid = batch.first.values[unlabelled], batch.first.valid[unlabelled]
        first, second = self._ask_teachers(crops, step)
        ensemble = entropy_ensemble(first, second)
        conflict = most_likely(first) != most_likely(second)
        mix = None
        if self.config.cutmix and self.turn(step) == 1:
            mix = draw_mix(len(crops), valid.shape[1:]).to(crops.device)
        view = mix(crops) if mix else strong_view(crops, valid, self.limits)
        logits, learning = self._student_pass(batch.first.values, view)
        (student,) = unlabelled_probabilities(batch, logits)
        target = settle_conflicts(ensemble, student, conflict)
        if mix:
            target, valid = mix(target), mix(valid)
        terms = {
            "supervised": self.labelled_loss(logits, batch),
            "teachers": self.unsupervised_weight(step) * self._learn(learning, target, valid),
        }
        return StepOutput(terms, (first, second, ensemble))

    def unsupervised_weight(self, step: int) -> float:
        """Along half a Gaussian up to the largest."""
        return self.config.unsupervised_weight * sigmoid_rampup(step, self.rampup_steps)

    def after_step(self, output: StepOutput, batch: Batch, step: int) -> None:
        """Move the teacher whose turn it is, BatchNorm's statistics included."""
        teacher = cast("EmaTeacher", self.teachers[self.turn(step)])
        # Each has about every other step, and the release lets averages warm up by half of them.
        teacher.update(max(0, step - self.copy_steps) // 2, self.student)

    def inference_network(self) -> nn.Module:
        """The student, which the release tests."""
        return self.student

    def predict_members(self, crops: Tensor) -> list[Tensor]:
        """Also what each teacher says."""
        return [self.predict(crops), *(teacher(crops) for teacher in self.teachers)]

    def trained_networks(self) -> list[nn.Module]:
        """The student alone."""
        return [self.student]

    def health(self, output: StepOutput, batch: Batch) -> PseudoLabelHealth:
        """Class fractions of the teachers' labels, how far they agree, how many are sure."""
        valid = batch.first.valid[batch.labelled_count :]
        return sure_pair_health(output.pseudo_labels, valid, self.config.threshold)

    def _ask_teachers(self, crops: Tensor, step: int) -> list[Tensor]:
        form = self.config.pseudo_labels
        if form != "alternate":
            with clean_pass(self.teachers, form):
                return [teacher(crops) for teacher in self.teachers]
        turn = self.turn(step)
        with evaluating(self.teachers[1 - turn]):
            return [teacher(crops) for teacher in self.teachers]

    def _student_pass(self, crops: Tensor, view: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of all crops, and of the view of the unlabelled ones.

        In one pass, as in the release, where BatchNorm takes its statistics over all kinds anyway.
        """
        if mixes_kinds(self.student):
            whole = self.student(torch.cat([crops, view])).float()
            return whole[: len(crops)], whole[len(crops) :]
        return self.student(crops).float(), self.student(view).float()

    def _learn(self, logits: Tensor, target: Tensor, valid: Tensor) -> Tensor:
        """What the labels that are sure enough teach; 0 without any."""
        confidence, label = target.max(dim=1)
        sure = (confidence >= self.config.threshold) & valid
        if self.config.loss_form == "dice":
            return class_dice_losses(logits, label, sure).mean()
        return masked_mean(F.cross_entropy(logits, label, reduction="none"), sure)
