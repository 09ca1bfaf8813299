"""A forward pass that computes shapes and no values, to learn of a network what it does not say."""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import torch
from torch import nn


def without_values(network: nn.Module) -> nn.Module:
    """A copy on torch's meta device, where tensors have shapes and take no time and no memory."""
    # What stands in `memo` is taken for copied already, wherever the network refers to it.
    memo: dict[int, Any] = {id(buffer): buffer.to("meta") for buffer in network.buffers()}
    memo |= {id(weight): nn.Parameter(weight.to("meta")) for weight in network.parameters()}
    return deepcopy(network, memo)


def dry_run(network: nn.Module, shape: Sequence[int]) -> Any:
    """What a network gives for crops [B, C, ...] of this shape; the network stays as it is."""
    with torch.no_grad():
        return without_values(network)(torch.empty(*shape, device="meta"))
