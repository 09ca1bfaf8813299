"""Runs of a method that are cut off and go on from what was saved, for what tests compare."""

import copy
from collections.abc import Callable
from typing import TypeVar

import torch
from samples import make_batch

from tracoco.methods.method import Method

AnyMethod = TypeVar("AnyMethod", bound=Method)


def after_steps(
    make: Callable[[], AnyMethod], steps: int, saved_at: int | None = None
) -> AnyMethod:
    """The method after some steps; before `saved_at` all is saved, built anew and loaded."""
    method, optimizer = _begin(make)
    for step in range(steps):
        if step == saved_at:
            states = copy.deepcopy([method.state_dict(), optimizer.state_dict()])
            method, optimizer = _begin(make)
            method.load_state_dict(states[0])
            optimizer.load_state_dict(states[1])
        torch.manual_seed(step)
        optimizer.zero_grad(set_to_none=True)
        torch.stack(list(method(make_batch(2, seed=step), step).values())).sum().backward()
        optimizer.step()
        method.after_step(step)
    return method


def _begin(make: Callable[[], AnyMethod]) -> tuple[AnyMethod, torch.optim.Optimizer]:
    method = make()
    return method, torch.optim.SGD(method.parameter_groups(), lr=0.1, momentum=0.9)
