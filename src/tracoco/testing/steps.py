"""Steps of a method without the trainer, and runs that are cut off and go on."""

import copy
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, TypeVar

import torch

from tracoco.data.batch import Batch
from tracoco.methods.method import Method, StepOutput
from tracoco.testing.subject import make_batch
from tracoco.training.contract import checked_terms

AnyMethod = TypeVar("AnyMethod", bound=Method)
BatchOfSeed = Callable[[int], Batch]


def loss_of(terms: dict[str, torch.Tensor]) -> torch.Tensor:
    """What the trainer minimises."""
    return torch.stack(list(terms.values())).sum()


def take_step(
    method: Method, optimizer: torch.optim.Optimizer, batch: Batch, step: int
) -> StepOutput:
    """All that the trainer asks of a method at a step; what its `forward` gave."""
    torch.manual_seed(step)
    method.before_step(batch, step)
    optimizer.zero_grad(set_to_none=True)
    output: StepOutput = method(batch, step)
    loss_of(checked_terms(type(method).__name__, output)).backward()
    optimizer.step()
    method.after_step(output, batch, step)
    return output


def after_steps(
    make: Callable[[], AnyMethod],
    steps: Iterable[int],
    saved_at: int | None = None,
    classes: int = 2,
    batch_of: BatchOfSeed | None = None,
) -> AnyMethod:
    """The method after some steps; before `saved_at` all is saved, built anew and loaded."""
    method, optimizer = _begin(make)
    for step in steps:
        if step == saved_at:
            states = copy.deepcopy([method.state_dict(), optimizer.state_dict()])
            method, optimizer = _begin(make)
            method.load_state_dict(states[0])
            optimizer.load_state_dict(states[1])
        batch = batch_of(step) if batch_of else make_batch(2, classes, seed=step)
        # Other cases at every step, so that what is kept of each is not always written anew.
        cases = tuple(f"{case} of step {step}" for case in batch.cases)
        take_step(method, optimizer, replace(batch, cases=cases), step)
    return method


def differing(first: dict[str, Any], second: dict[str, Any]) -> list[str]:
    """Names of what is not bitwise the same in two states of a method."""
    missing = sorted(first.keys() ^ second.keys())
    return missing or [name for name in first if not _same(first[name], second[name])]


def _same(first: Any, second: Any) -> bool:
    if isinstance(first, torch.Tensor):
        return torch.equal(first, second)
    if isinstance(first, dict):  # of an inner optimizer or a bank
        return first.keys() == second.keys() and all(_same(first[k], second[k]) for k in first)
    if isinstance(first, list | tuple):
        return all(_same(*pair) for pair in zip(first, second, strict=True))
    return bool(first == second)


def _begin(make: Callable[[], AnyMethod]) -> tuple[AnyMethod, torch.optim.Optimizer]:
    method = make()
    return method, torch.optim.SGD(method.parameter_groups(), lr=0.1, momentum=0.9)
