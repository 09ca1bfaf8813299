"""Perturbations of crops that change a network's prediction most, without a label."""

from collections.abc import Callable

import torch
from torch import Tensor


def random_directions(crops: Tensor, valid: Tensor) -> Tensor:
    """A direction of length one for each crop [B, C, ...], uniform in each voxel."""
    return unit_length(torch.rand_like(crops) - 0.5, valid)


def unit_length(directions: Tensor, valid: Tensor) -> Tensor:
    """Directions [B, C, ...] that are 0 in padding and of length one; nothing stays nothing."""
    within = directions * valid.unsqueeze(1)
    length = within.flatten(1).square().sum(dim=1).sqrt()
    return within / (length.reshape(-1, *[1] * (within.ndim - 1)) + 1e-8)


def crop_lengths(valid: Tensor, channels: int, amount: float) -> Tensor:
    """Length of a perturbation whose root mean square within each crop is `amount`, [B, 1, ...]."""
    values = channels * valid.flatten(1).sum(dim=1)
    return amount * values.float().sqrt().reshape(-1, *[1] * valid.ndim)


def steepest(distance: Callable[[Tensor], Tensor], perturbation: Tensor) -> Tensor:
    """The gradient of a distance of predictions at a perturbation, and of nothing else.

    It is taken in full precision, also under autocast, and leaves no gradient on any weight.
    """
    moved = perturbation.detach().requires_grad_()
    with torch.enable_grad(), torch.autocast(moved.device.type, enabled=False):
        (gradient,) = torch.autograd.grad(distance(moved), moved)
    return gradient
