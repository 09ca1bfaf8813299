"""Teachers: exponential moving averages of a student, and passes that give pseudo-labels."""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from tracoco.data.batch import Batch
from tracoco.losses.weighting import sigmoid_rampup
from tracoco.methods.health import PseudoLabelHealth, pair_health
from tracoco.methods.method import Method, NetworkFactory, RunFacts, StepOutput, evaluating
from tracoco.networks.statistics import frozen_statistics, norms_by_batch
from tracoco.settings import Settings

CleanPass = Literal["batch", "clean"]
"""What BatchNorm normalises by; networks without it give the same labels either way.

batch: the statistics of the batch, as in the authors' release. Running statistics stay as they are.
clean: its running statistics, as at test time. While weights move fast these lag behind, and
    pseudo-labels that rely on them can lose the foreground: in TraCoCo's training of a narrow VNet
    twice as often as with `batch`, in that of CPS about as often (docs/explanation/paper.md).
"""

PseudoLabelPass = Literal["batch", "clean", "training"]
"""`training`: no pass of their own but the training pass, with its noise and dropout."""


class EmaTeacher(nn.Module):
    """An exponential moving average (EMA) of a network: same layers, no gradient, no optimizer.

    By default it is what the releases of this family use: in training mode it has dropout and
    BatchNorm by the statistics of its own batch, and its running statistics are its own.
    """

    def __init__(
        self,
        network: nn.Module,
        decay: float,
        *,
        copy_buffers: bool = False,
        average_statistics: bool = False,
        warms_up: bool = True,
    ) -> None:
        """Start as a copy of the network.

        Args:
            network: the student as it was built.
            decay: fraction of the teacher that each step keeps, once the average has warmed up.
            copy_buffers: take over the student's BatchNorm statistics at every step. Needed where
                the teacher predicts, since then it normalises by them.
            average_statistics: average the student's BatchNorm statistics like its weights, for a
                teacher that is asked as at test time.
            warms_up: average over few steps at first, as `update` says; else `decay` holds at once.
        """
        super().__init__()
        self.network = copy.deepcopy(network).requires_grad_(requires_grad=False)
        self.decay = decay
        self.copy_buffers = copy_buffers
        self.average_statistics = average_statistics
        self.warms_up = warms_up

    def forward(self, crops: Tensor) -> Tensor:
        """Class probabilities of the crops, without gradient."""
        with torch.no_grad():
            logits: Tensor = self.network(crops)
        return logits.float().softmax(dim=1)

    def become(self, student: nn.Module) -> None:
        """Start anew as a copy of the student, its statistics included."""
        self.network.load_state_dict(student.state_dict())

    @torch.no_grad()
    def update(self, step: int, student: nn.Module) -> None:
        """Move towards the student, once the optimizer has taken `step`, counted from 0.

        The average warms up: after the first step the teacher is the student, after the second
        the mean of two students, and so on until `decay` says otherwise.
        """
        kept = min(1 - 1 / (step + 1), self.decay) if self.warms_up else self.decay
        move_average(self.network, student, kept, statistics=self.average_statistics)
        if self.copy_buffers:
            statistics = zip(self.network.buffers(), student.buffers(), strict=True)
            for own, current in statistics:
                own.copy_(current)


@torch.no_grad()
def move_average(
    average: nn.Module, newest: nn.Module, kept: float, *, statistics: bool = False
) -> None:
    """Keep this fraction of every weight, and of BatchNorm's statistics; the rest is the newest."""
    own, new = (
        [*network.parameters(), *(network.buffers() if statistics else ())]
        for network in (average, newest)
    )
    for mean, current in zip(own, new, strict=True):
        if mean.is_floating_point():  # BatchNorm also counts its batches
            mean.lerp_(current, 1 - kept)


def clipped_noise(crops: Tensor, amount: float) -> Tensor:
    """Crops with normal noise of deviation `amount`, cut off at twice that: a teacher's input."""
    if amount == 0:
        return crops
    noise = amount * torch.randn_like(crops)
    return crops + noise.clamp(-2 * amount, 2 * amount)


@torch.no_grad()
def mean_of_passes(
    one_pass: Callable[[Tensor], tuple[Tensor, ...]], crops: Tensor, *, noise: float, passes: int
) -> tuple[Tensor, ...]:
    """The mean over all passes of each map that `one_pass` gives, without gradient.

    Every pass has noise of its own on the crops, and dropout of its own in a network that is in
    training mode. They come one after the other, so that memory does not grow with their number.

    Args:
        one_pass: what is wanted of a pass, from its crops; squares of a map for a variance, say.
        crops: [B, C, ...].
        noise: deviation of the noise, in the units of the crops.
        passes: how many, at least one.
    """
    total = one_pass(clipped_noise(crops, noise))
    for _ in range(passes - 1):
        maps = one_pass(clipped_noise(crops, noise))
        total = tuple(sum_ + new for sum_, new in zip(total, maps, strict=True))
    return tuple(sum_ / passes for sum_ in total)


@contextmanager
def clean_pass(module: nn.Module, form: CleanPass) -> Iterator[None]:
    """Passes of `module` in here are without gradient and dropout, and `form` says the rest."""
    with evaluating(module), frozen_statistics(module):
        if form == "batch":
            for norm in norms_by_batch(module):
                norm.train()
        yield


class StudentTeacherConfig(Settings):
    """What the methods around an averaged teacher share, by default as in their releases.

    Those releases halve the supervised loss. Here it is whole, as in every method, so that a
    comparison has one thing less to explain; weights beside it are twice as large as theirs.
    """

    unsupervised_weight: float = Field(default=0.2, ge=0)
    """Largest weight of the consistency with the teacher; 0.1 in the releases, beside half of the
    supervised loss."""
    rampup_steps: PositiveInt | None = None
    """Steps until the weight is at its largest; the whole run if not given."""
    decay: float = Field(default=0.99, ge=0, lt=1)
    """Fraction of the teacher that each step keeps, once its average has warmed up."""
    noise: float = Field(default=0.02, ge=0)
    """Deviation of the noise on the teacher's crops, as a fraction of the intensity range.

    The releases take a tenth of a scan's standard deviation, which is about a fifth of the range
    once a scan is clipped at its percentiles. The student sees its crops as they are.
    """
    predict_with: Literal["student", "teacher"] = "student"
    """Every release tests the student."""


class StudentTeacher(Method):
    """What all of them do alike; what the student must agree on is each one's own."""

    config: StudentTeacherConfig
    student: nn.Module

    def __init__(
        self, config: StudentTeacherConfig, build_network: NetworkFactory, facts: RunFacts
    ) -> None:
        super().__init__()
        self.config = config
        self.student = build_network()
        predicts = config.predict_with == "teacher"
        self.teacher = EmaTeacher(self.student, config.decay, copy_buffers=predicts)
        self.noise = config.noise * facts.intensity_range
        self.rampup_steps = config.rampup_steps or facts.total_steps
        self.total_steps = facts.total_steps

    def noisy(self, crops: Tensor) -> Tensor:
        """Crops as the teacher sees them."""
        return clipped_noise(crops, self.noise)

    def consistency_weight(self, step: int) -> float:
        """Along half a Gaussian up to the largest."""
        return self.config.unsupervised_weight * self.rampup(step)

    def rampup(self, step: int) -> float:
        """How far the weights of the unlabelled crops have risen, up to 1."""
        return sigmoid_rampup(step, self.rampup_steps)

    def after_step(self, output: StepOutput, batch: Batch, step: int) -> None:
        """Move the teacher."""
        self.teacher.update(step, self.student)

    def inference_network(self) -> nn.Module:
        """The student or the teacher, as the settings say."""
        return self.teacher.network if self.config.predict_with == "teacher" else self.student

    def trained_networks(self) -> list[nn.Module]:
        """The student alone."""
        return [self.student]

    def health(self, output: StepOutput, batch: Batch) -> PseudoLabelHealth:
        """Class fractions of the teacher's labels, and how far the student is from them.

        The output's pseudo-labels begin with the probabilities of student and teacher.
        """
        student, teacher = output.pseudo_labels[:2]
        valid = batch.first.valid[batch.labelled_count :]
        return pair_health(teacher, (student, teacher), valid)
