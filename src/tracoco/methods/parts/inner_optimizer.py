"""An optimizer within a method, for a part that does not learn from the sum of the loss terms."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

Part = TypeVar("Part", bound=nn.Module)


class InnerOptimizer(nn.Module, Generic[Part]):
    """A part of a method, and the Adam that moves it.

    The part needs a gradient only while it learns here. So the main optimizer does not own it,
    and loss terms that go through it teach what lies before it. Adam's averages are saved with
    the weights.
    """

    part: Part

    def __init__(self, part: Part, rate: float, betas: tuple[float, float]) -> None:
        super().__init__()
        self.part = part.requires_grad_(requires_grad=False)
        self.adam = torch.optim.Adam(part.parameters(), lr=rate, betas=betas)

    def descend(self, loss: Callable[[Part], Tensor]) -> None:
        """One step down a loss of the part; several processes take the same one."""
        weights = list(self.part.parameters())
        self.part.requires_grad_(requires_grad=True)
        gradients = torch.autograd.grad(loss(self.part), weights)
        self.part.requires_grad_(requires_grad=False)
        for weight, gradient in zip(weights, gradients, strict=True):
            weight.grad = _mean_of_processes(gradient)
        self.adam.step()
        self.adam.zero_grad(set_to_none=True)

    def get_extra_state(self) -> dict[str, Any]:
        """What Adam remembers; torch saves it among the weights."""
        return self.adam.state_dict()

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Go on with what Adam remembered."""
        self.adam.load_state_dict(state)


def _mean_of_processes(gradient: Tensor) -> Tensor:
    # What is no part of the main backward pass is not averaged by DistributedDataParallel.
    if dist.is_available() and dist.is_initialized():
        dist.all_reduce(gradient)
        gradient /= dist.get_world_size()
    return gradient
