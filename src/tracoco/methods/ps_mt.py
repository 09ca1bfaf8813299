"""PS-MT (Liu et al., CVPR 2022): perturbed and strict mean teachers."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Literal, cast

import torch
import torch.nn.functional as F
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from tracoco.data.batch import Batch
from tracoco.losses.consistency import kl_loss
from tracoco.losses.weighting import cosine_rampup, masked_mean
from tracoco.methods.health import PseudoLabelHealth, sure_pair_health
from tracoco.methods.method import (
    MeanOfNetworks,
    Method,
    NetworkFactory,
    RunFacts,
    StepOutput,
)
from tracoco.methods.parts.adversarial import steepest
from tracoco.methods.parts.cutmix import check_partners, draw_mix
from tracoco.methods.parts.strong_view import strong_view
from tracoco.methods.parts.student_teacher import CleanPass, clean_pass, move_average
from tracoco.networks.network import with_features
from tracoco.settings import Settings


def confident_ce_loss(logits: Tensor, peer: Tensor, valid: Tensor, *, threshold: float) -> Tensor:
    """Cross-entropy with the peer's label times its confidence, mean over the sure voxels alone.

    Args:
        logits: the learning network's output, [B, C, ...].
        peer: the teacher's probabilities of the same voxels; no gradient reaches them.
        valid: false where the crop is padding, [B, ...].
        threshold: a voxel teaches where the peer's largest probability is at least this.
    """
    confidence, label = peer.detach().max(dim=1)
    loss = confidence * F.cross_entropy(logits, label, reduction="none")
    return masked_mean(loss, valid & (confidence >= threshold))


PROBE = 0.1
"""Length of the random step at which the direction is found. PS-MT's release takes a millionth of
that, where float32 has no digits left."""


def worst_noise(
    decode: Callable[[list[Tensor]], Tensor], features: Sequence[Tensor], valid: Tensor
) -> Tensor:
    """The direction, of length one in each crop, in which a prediction changes most.

    It is the gradient of KL(prediction || prediction with noise) at a short random step.

    Args:
        decode: from maps to logits.
        features: maps of an encoder, fine to coarse; no gradient reaches them.
        valid: false where the crops are padding, [B, ...].
    """
    *fine, coarsest = (level.detach().float() for level in features)
    start = PROBE * _unit_length(torch.randn_like(coarsest))
    # In full precision: between two predictions that are nearly alike, rounding would decide.
    with torch.autocast(coarsest.device.type, enabled=False), torch.no_grad():
        prediction = decode([*fine, coarsest]).softmax(dim=1)
    gradient = steepest(
        lambda noise: kl_loss(decode([*fine, coarsest + noise]), prediction, valid), start
    )
    return _unit_length(gradient)


def _unit_length(maps: Tensor) -> Tensor:
    return F.normalize(maps.flatten(1), dim=1, eps=1e-20).reshape(maps.shape)


if TYPE_CHECKING:
    from tracoco.networks.network import Network


class TwoTeachers(MeanOfNetworks):
    """They are asked without dropout, and no gradient reaches them.

    PS-MT's release asks them with dropout. Its noise on features is nearly nothing, since a
    gradient is divided by a much larger constant; here it has the length that it is said to have.
    """

    def __init__(self, networks: Iterable[nn.Module], form: CleanPass) -> None:
        super().__init__(networks)
        self.form = form

    def label(self, crops: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Class probabilities of each teacher, and those of both together."""
        with clean_pass(self, self.form):
            first, second = (network(crops).float() for network in self.networks)
        both = (first + second) / 2
        return first.softmax(dim=1), second.softmax(dim=1), both.softmax(dim=1)

    def worst_noise(self, features: Sequence[Tensor], valid: Tensor) -> Tensor:
        """The noise of length one, on a student's coarsest map, that misleads them most."""
        with clean_pass(self, self.form):
            return worst_noise(self.decode, features, valid)

    def decode(self, features: list[Tensor]) -> Tensor:
        """What their decoders make of the student's maps."""
        networks = cast("list[Network]", list(self.networks))
        return torch.stack([each.head(each.decode(features)) for each in networks]).mean(dim=0)


RELEASED_DECAY = 0.996


class PSMTConfig(Settings):
    """Settings of `ps-mt`, by default those of its release, which is for photographs.

    No settings for scans were published.
    """

    unsupervised_weight: float = Field(default=0.6, ge=0)
    """Largest weight of the teachers' labels: the release has 0.06 to 0.6 with few labels, as this
    package is made for, and 1.5 with many."""
    rampup_steps: PositiveInt | None = None
    """Steps of the second stage until the weight is at its largest; 15 % of the run if not given,
    as 12 of the release's 80 epochs."""
    pretrain: float = Field(default=0.05, ge=0, lt=1)
    """Fraction of the steps in which all three networks learn from labelled crops alone. The
    release makes five passes over the labelled images."""
    turn_steps: PositiveInt | None = None
    """Steps for which one teacher follows the student, then the other does; an eightieth of the
    run if not given, as an epoch of the release."""
    decay: float | None = Field(default=None, ge=0, lt=1)
    """Fraction of the teacher whose turn it is that each step keeps; if not given, 0.996 as in the
    release, or in a shorter run as much less as makes it remember one turn."""
    threshold: float = Field(default=0.6, ge=0, le=1)
    """A voxel teaches where the teachers' largest probability is at least this."""
    feature_noise: float = Field(default=2.0, ge=0)
    """Length of the noise on the student's coarsest map, one number a crop."""
    cutmix: bool = True
    """Put a box of another crop's strong view into each one."""
    pseudo_labels: CleanPass = "batch"
    """What BatchNorm uses where the teachers label unlabelled crops: `batch`, the statistics of
    these crops, or `clean`, its running statistics."""
    predict_with: Literal["teachers", "teacher"] = "teachers"
    """Both teachers, which takes twice as long, or the first alone."""


class PSMT(Method):
    """A student with noise on crops and features, and two averaged teachers that see none.

    The teachers differ in their first weights and learn from labels for as long as the first
    stage lasts. Then they follow the student in turns, and their optimizer leaves them alone.
    """

    Config = PSMTConfig
    idle_networks = True

    def __init__(self, config: PSMTConfig, build_network: NetworkFactory, facts: RunFacts) -> None:
        super().__init__()
        if config.cutmix:
            check_partners(facts.unlabelled_batch, None, facts.dimensions)
        self.config = config
        self.student = with_features(build_network(), "ps-mt")
        teachers = (with_features(build_network(), "ps-mt") for _ in range(2))
        self.teachers = TwoTeachers(teachers, config.pseudo_labels)
        self.limits = facts.intensity_limits
        self.pretrain_steps = round(config.pretrain * facts.total_steps)
        self.rampup_steps = config.rampup_steps or max(1, round(0.15 * facts.total_steps))
        self.turn_steps = config.turn_steps or max(1, facts.total_steps // 80)
        # With the release's decay a teacher is still a blend of its own first weights and the
        # student's after hundreds of steps: of two networks, which is none.
        decay = min(RELEASED_DECAY, 1 - 1 / self.turn_steps)
        self.decay = decay if config.decay is None else config.decay

    def forward(self, batch: Batch, step: int) -> StepOutput:
        """Supervised loss, and past the first stage cross-entropy with the teachers' labels."""
        count, valid = batch.labelled_count, batch.first.valid
        if step < self.pretrain_steps:
            return StepOutput({"supervised": self._pretrain(batch)})
        pseudo_labels = self.teachers.label(batch.first.values[count:])
        prediction = pseudo_labels[-1]
        crops = strong_view(batch.first.values, valid, self.limits)
        if self.config.cutmix:
            mix = draw_mix(len(prediction), valid.shape[1:]).to(crops.device)
            crops = torch.cat([crops[:count], mix(crops[count:])])
            valid = torch.cat([valid[:count], mix(valid[count:])])
            prediction = mix(prediction)
        logits = self._perturbed(crops, valid)
        semi_supervised = confident_ce_loss(
            logits[count:], prediction, valid[count:], threshold=self.config.threshold
        )
        terms = {
            "supervised": self.labelled_loss(logits, batch),
            "confident_ce": self.unsupervised_weight(step) * semi_supervised,
        }
        return StepOutput(terms, pseudo_labels)

    def unsupervised_weight(self, step: int) -> float:
        """Along half a cosine that starts with the second stage."""
        ramp = cosine_rampup(step - self.pretrain_steps, self.rampup_steps)
        return self.config.unsupervised_weight * ramp

    def after_step(self, output: StepOutput, batch: Batch, step: int) -> None:
        """Move the teacher whose turn it is, BatchNorm's statistics included."""
        if step >= self.pretrain_steps:
            turn = (step - self.pretrain_steps) // self.turn_steps % 2
            teacher = self.teachers.networks[turn]
            move_average(teacher, self.student, self.decay, statistics=True)

    def inference_network(self) -> nn.Module:
        """Both teachers or the first, as the settings say."""
        both = self.config.predict_with == "teachers"
        return self.teachers if both else self.teachers.networks[0]

    def predict_members(self, crops: Tensor) -> list[Tensor]:
        """Also what each teacher says alone."""
        alone = [teacher(crops).float().softmax(dim=1) for teacher in self.teachers.networks]
        return [self.predict(crops), *alone]

    def trained_networks(self) -> list[nn.Module]:
        """The student, and the teachers as long as they learn from labels."""
        return [self.student, *self.teachers.networks]

    def health(self, output: StepOutput, batch: Batch) -> PseudoLabelHealth:
        """Class fractions of the pseudo-labels, how far teachers agree, how many are sure."""
        if not output.pseudo_labels:
            return PseudoLabelHealth()
        valid = batch.first.valid[batch.labelled_count :]
        return sure_pair_health(output.pseudo_labels, valid, self.config.threshold)

    def _pretrain(self, batch: Batch) -> Tensor:
        """The labelled crops as they are for each teacher, a strong view for the student."""
        crops = batch.first.values[: batch.labelled_count]
        valid = batch.first.valid[: batch.labelled_count]
        strong = strong_view(crops, valid, self.limits)
        logits = [self.student(strong), *(teacher(crops) for teacher in self.teachers.networks)]
        return torch.stack([self.labelled_loss(each.float(), batch) for each in logits]).sum()

    def _perturbed(self, crops: Tensor, valid: Tensor) -> Tensor:
        """The student's logits, with the noise on its coarsest map that misleads teachers most."""
        *fine, coarsest = self.student.encode(crops)
        noise = self.teachers.worst_noise([*fine, coarsest], valid)
        coarsest = coarsest + self.config.feature_noise * noise.to(coarsest.dtype)
        logits: Tensor = self.student.head(self.student.decode([*fine, coarsest]))
        return logits.float()
