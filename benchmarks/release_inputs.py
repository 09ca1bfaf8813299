"""The fixed inputs of `release_values.json`, and stand-ins for the networks of methods."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from tracoco.data.batch import Batch, Crops
from tracoco.methods.tri_u_mt import TaskOutputs


def numbers(*values: object) -> Tensor:
    """In double precision, so that the last digits of the page are the same on every machine."""
    return torch.tensor(values, dtype=torch.float64)


FIRST = numbers(
    [[1.2, -0.4, 0.3, 2.0], [0.5, 0.9, -1.1, 0.1], [-0.7, 0.2, 0.8, -0.3]],
    [[0.1, 1.5, -0.6, 0.4], [1.3, -0.2, 0.7, -0.9], [-0.4, 0.6, 1.1, 2.2]],
)
"""Logits that learn: two crops, three classes, four voxels."""
SECOND = numbers(
    [[0.4, 0.8, -0.5, 1.1], [1.0, -0.3, 0.6, -0.8], [-0.2, 1.4, 0.9, 0.3]],
    [[1.7, -0.1, 0.2, -0.5], [-0.6, 0.8, 1.9, 0.4], [0.3, 0.5, -1.0, 1.2]],
)
"""Those of a teacher or peer."""
THIRD = (FIRST.flip(0) + SECOND) / 2
LABEL = torch.tensor([[0, 1, 2, 0], [1, 0, 2, 2]])
TWO, PEER, LAST = FIRST[:, :2], SECOND[:, :2], THIRD[:, :2]
"""The same for two classes."""
BINARY = LABEL.clamp(max=1)
PREDICTION = SECOND.softmax(dim=1)
EVERYWHERE = torch.ones(2, 4, dtype=torch.bool)
WEIGHTS = numbers(0.5, 3.0, 1.5)
SURE = PREDICTION.amax(dim=1) >= 0.55


@dataclass(frozen=True, slots=True)
class Ours:
    """A loss of this package, and where its gradient is taken."""

    start: Tensor
    loss: Callable[[Tensor], Tensor]

    def measure(self) -> tuple[float, Tensor]:
        """The loss, and its gradient."""
        learner = self.start.detach().clone().requires_grad_()
        value = self.loss(learner)
        gradient = torch.zeros_like(learner)
        if value.requires_grad:
            (gradient,) = torch.autograd.grad(value, learner)
        return value.item(), gradient


class Told(nn.Module):
    """Gives what it is told, call after call."""

    def __init__(self, *results: Tensor) -> None:
        super().__init__()
        self.results = list(results)

    def forward(self, *_: object, **__: object) -> Tensor:
        """The next one."""
        return self.results.pop(0)


def batch_of(size: tuple[int, ...], label: Tensor) -> Batch:
    """Two labelled and two unlabelled crops of nothing."""
    values, valid = torch.zeros(4, 1, *size), torch.ones(4, *size, dtype=torch.bool)
    crops = Crops(values, valid, tuple((0,) * len(size) for _ in range(4)))
    return Batch(crops, crops, label.reshape(-1, *size), tuple("abcd"))


class Passes(nn.Module):
    """A teacher of three tasks whose passes are told."""

    def __init__(self, *passes: TaskOutputs) -> None:
        super().__init__()
        self.passes = list(passes)

    def outputs(self, crops: Tensor, dropout: float) -> TaskOutputs:  # noqa: ARG002 - told
        """The next one."""
        return self.passes.pop(0)
