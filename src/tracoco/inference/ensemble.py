"""Several predictions of one crop averaged: of several runs, of two networks, of mirrored views."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import combinations
from typing import Literal, get_args

import torch
from torch import Tensor

from tracoco.errors import UserError, check_choice
from tracoco.inference.folding import ready_to_predict
from tracoco.methods.method import Method
from tracoco.project.plan import Plan

Members = Literal["first", "both"]
"""first: the network that predicts; both: the mean of two networks that were trained together."""
Predict = Callable[[Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class Views:
    """Which networks of a run predict, and which mirrored views of a crop they see."""

    members: Members = "first"
    mirror: bool = False

    def check(self, method: Method, plan: Plan) -> None:
        """Refuse what the method or the plan does not have."""
        check_choice("members", self.members, get_args(Members))
        if self.members == "both" and not method.has_members:
            raise UserError(
                "--members both needs two networks that were trained together, and this run's "
                "method has one; leave it out"
            )
        if self.mirror and not mirrored_dimensions(plan):
            raise UserError(
                "--mirror: the plan of this run has no mirror_axes, so a mirrored scan may show "
                "what no scan does; leave it out, or name the axes in plan.yaml and train again"
            )

    @property
    def text(self) -> str:
        """What differs from one pass of one network, in words; empty if nothing does."""
        parts = ["both networks"] * (self.members == "both") + ["mirrored views"] * self.mirror
        return ", ".join(parts)


PLAIN = Views()
"""One pass of the network that predicts."""


def mirrored_dimensions(plan: Plan) -> list[int]:
    """Dimensions of crops [B, C, ...] along which they may be mirrored."""
    return [axis + plan.dimensions - 1 for axis in plan.mirror_axes]


@contextmanager
def averaged(methods: Sequence[Method], views: Views, plan: Plan) -> Iterator[Predict]:
    """Class probabilities of crops: the mean over methods, their networks and mirrored views.

    The same windows go through all of them, so that this is the mean over whole scans as well.
    """
    flips = _subsets(mirrored_dimensions(plan)) if views.mirror else [()]
    with ExitStack() as stack:
        ready = [stack.enter_context(ready_to_predict(method)) for method in methods]

        def predict(crops: Tensor) -> Tensor:
            total: Tensor | None = None
            for flip in flips:
                turned = crops.flip(flip) if flip else crops
                for method in ready:
                    found = _of_members(method, turned, views.members)
                    found = found.flip(flip) if flip else found
                    total = found if total is None else total.add_(found)
            assert total is not None  # noqa: S101 - there is one method at least
            return total / (len(flips) * len(ready)) if len(flips) * len(ready) > 1 else total

        yield predict


def _of_members(method: Method, crops: Tensor, members: Members) -> Tensor:
    if members == "first":
        return method.predict(crops)
    return torch.stack(method.predict_members(crops)[-2:]).mean(dim=0)


def _subsets(dimensions: Sequence[int]) -> list[tuple[int, ...]]:
    """All choices of some of the dimensions, none of them first."""
    sizes = range(len(dimensions) + 1)
    return [subset for size in sizes for subset in combinations(dimensions, size)]
