"""Decoders that teach each other with sharpened probabilities (MC-Net and its kin)."""

from collections.abc import Sequence
from itertools import permutations

import torch
from torch import Tensor

from tracoco.losses.weighting import masked_mean


def sharpened(logits: Tensor, temperature: float) -> Tensor:
    """Probabilities to the power of 1 / temperature, divided by their sum; from [B, C, ...].

    The power of a softmax is the softmax of scaled logits, which no power can take out of range.
    For two classes it is the sharpening of each class by itself that MC-Net gives; with more, that
    one would push every class below 1/2 to 0.
    """
    return (logits / temperature).softmax(dim=1)


def mutual_loss(
    logits: Sequence[Tensor], inside: Tensor, *, temperature: float, detached: bool
) -> Tensor:
    """Squared distance of each decoder's probabilities to each other one's sharpened ones.

    A mean over voxels and classes, and a sum over the ordered pairs of decoders.

    Args:
        logits: what each decoder says of the same crops, [B, C, ...].
        inside: false where the crops are padding, [B, ...].
        temperature: of the targets; below 1 they are surer than the decoder is.
        detached: whether a target teaches the other decoder alone; if not, the gradient also runs
            through the sharpening, to the decoder that it comes from.
    """
    probabilities = [each.softmax(dim=1) for each in logits]
    targets = [sharpened(each.detach() if detached else each, temperature) for each in logits]
    distances = [
        masked_mean((probabilities[own] - targets[other]).square().mean(dim=1), inside)
        for own, other in permutations(range(len(logits)), 2)
    ]
    return torch.stack(distances).sum()
