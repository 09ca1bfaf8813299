"""Several predictions of one crop: the mean over runs, networks and mirrored views, or all."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import combinations

import torch
from torch import Tensor

from tracoco.inference.folding import ready_to_predict
from tracoco.inference.maps import disagreement
from tracoco.inference.model_choice import Members, Views, mirrored_dimensions
from tracoco.methods.method import Method
from tracoco.project.plan import Plan

Predict = Callable[[Tensor], Tensor]


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


def with_members(
    method: Method, predict: Predict | None, *, as_map: bool, compared: bool
) -> Predict:
    """Class probabilities, and behind them what compares a method's two networks.

    Args:
        method: it has two networks.
        predict: class probabilities in place of those of the method's first network.
        as_map: add the disagreement of each voxel.
        compared: add the probabilities of both networks.
    """

    def with_all(crops: Tensor) -> Tensor:
        members = method.predict_members(crops)
        parts = [predict(crops) if predict else members[0]]
        parts += [disagreement(*members[-2:])] if as_map else []
        parts += members[-2:] if compared else []
        return torch.cat(parts, dim=1)

    return with_all
