"""Noise on a network's coarsest map, in the direction in which decoders are misled most."""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from tracoco.losses.consistency import kl_loss
from tracoco.methods.adversarial import steepest

PROBE = 0.1
"""Length of the random step at which the direction is found. PS-MT's release takes a millionth of
that, where float32 has no digits left."""


def worst_noise(
    decode: Callable[[list[Tensor]], Tensor], features: Sequence[Tensor], inside: Tensor
) -> Tensor:
    """The direction, of length one in each crop, in which an answer changes most.

    It is the gradient of KL(answer || answer with noise) at a short random step.

    Args:
        decode: from maps to logits.
        features: maps of an encoder, fine to coarse; no gradient reaches them.
        inside: false where the crops are padding, [B, ...].
    """
    *fine, coarsest = (level.detach().float() for level in features)
    start = PROBE * _unit_length(torch.randn_like(coarsest))
    # In full precision: between two answers that are nearly alike, rounding would decide.
    with torch.autocast(coarsest.device.type, enabled=False), torch.no_grad():
        answer = decode([*fine, coarsest]).softmax(dim=1)
    gradient = steepest(
        lambda noise: kl_loss(decode([*fine, coarsest + noise]), answer, inside), start
    )
    return _unit_length(gradient)


def _unit_length(maps: Tensor) -> Tensor:
    return F.normalize(maps.flatten(1), dim=1, eps=1e-20).reshape(maps.shape)
