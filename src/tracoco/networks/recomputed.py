"""Activation checkpointing: maps that the backward pass computes again instead of keeping them."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint, noop_context_fn

from tracoco.networks.statistics import RepeatedPass


def recomputed(owner: nn.Module, compute: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
    """What `compute` makes of the inputs, of which only inputs and result are kept.

    The backward pass calls it again, with the same random numbers and in the same precision.

    Args:
        owner: the module whose layers `compute` uses.
        compute: the layers, as a function.
        inputs: what the layers take.
    """
    if not (owner.training and torch.is_grad_enabled()):
        return compute(*inputs)  # nothing is kept anyway, or not by a training

    def contexts() -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
        return nullcontext(), RepeatedPass(owner)

    # A compiled pass counts statistics once by itself, and cannot look into our contexts.
    chosen = noop_context_fn if torch.compiler.is_compiling() else contexts
    result: Tensor = checkpoint(compute, *inputs, use_reentrant=False, context_fn=chosen)
    return result


class Recomputed:
    """A network's forward pass as a whole, for networks whose levels cannot be reached."""

    def __init__(self, network: nn.Module) -> None:
        self.network = network
        self.compute = network.forward

    def __call__(self, crops: Tensor) -> Tensor:
        """The logits; all maps are made again when their gradient is asked for."""
        return recomputed(self.network, self.compute, crops)
