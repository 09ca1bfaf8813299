"""Teachers that are the running average of a student, for all methods that have one."""

import copy

import torch
from torch import Tensor, nn


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
            decay: share of the teacher that each step keeps, once the average has warmed up.
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
    """Keep this share of every weight, and of BatchNorm's statistics; the rest is the newest."""
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
