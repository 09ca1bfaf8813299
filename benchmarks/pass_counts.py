"""What a step sends through the networks of a method, whatever parts of them it calls."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from tracoco.methods.method import Method
from tracoco.networks.network import Decoder, Encoder, Stages

HALF = 0.5
"""An encoder or a decoder alone."""


@dataclass(frozen=True, slots=True)
class PassCounts:
    """Networks of a method, and the crops that a step sends through them."""

    networks: int
    """Those that have a gradient after the step."""
    averaged: int
    """Those that have none."""
    decoders: int
    """Decoders that have a gradient."""
    with_gradient: float
    without: float


def count_passes(method: Method, voxels: int, step: Callable[[], object]) -> PassCounts:
    """Take a step and count; an encoder or a decoder alone is half a pass.

    Args:
        method: it is watched for as long as the step takes.
        voxels: of a crop of the batch; a smaller patch counts for less.
        step: leaves the gradients of the step on the weights.
    """
    crops = {True: 0.0, False: 0.0}

    def count(share: float, _: nn.Module, inputs: tuple[Any, ...]) -> None:
        maps: Tensor = inputs[0][0] if isinstance(inputs[0], list) else inputs[0]
        crops[torch.is_grad_enabled()] += share * len(maps) * prod(maps.shape[2:]) / voxels

    halves = [part for part in method.modules() if isinstance(part, Encoder | Decoder)]
    shares = [(part, HALF) for part in halves] + [(part, 1.0) for part in foreign(method)]
    handles = [part.register_forward_pre_hook(partial(count, share)) for part, share in shares]
    step()
    for handle in handles:
        handle.remove()
    encoders = [part for part, _ in shares if not isinstance(part, Decoder)]
    decoders = [part for part, _ in shares if not isinstance(part, Encoder)]
    learning = sum(map(_has_gradient, encoders))
    return PassCounts(
        learning,
        len(encoders) - learning,
        sum(map(_has_gradient, decoders)),
        crops[True],
        crops[False],
    )


def foreign(method: Method) -> Iterator[nn.Module]:
    """Networks that learn and are not ours, which have no encoder to be told from a decoder."""
    for network in method.trained_networks():
        if not any(isinstance(part, Stages) for part in network.modules()):
            yield network


def _has_gradient(part: nn.Module) -> bool:
    return any(weight.grad is not None for weight in part.parameters())
