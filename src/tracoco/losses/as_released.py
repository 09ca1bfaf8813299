"""The losses as the authors' release computes them, where it departs from the paper.

They are here because they produced the published numbers, for `tracoco-as-released` alone. What
each does differently is said in its docstring; `docs/paper.md` has the whole list.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from tracoco.losses.supervised import class_dice_losses, cross_entropy
from tracoco.losses.translation import Overlap
from tracoco.losses.weighting import masked_mean, most_likely

SMALLEST = 1e-6
"""Where the release clamps: logits from below, and 1 - p before its logarithm."""


def halved_supervised_loss(logits: Tensor, label: Tensor, inside: Tensor) -> Tensor:
    """Half of cross-entropy plus Dice: in effect, lambda is twice what it says."""
    return (cross_entropy(logits, label, inside) + released_dice(logits, label, inside)) / 2


def released_dice(logits: Tensor, label: Tensor, inside: Tensor) -> Tensor:
    """Dice of the foreground alone for two classes, of all classes with the background for more."""
    losses = class_dice_losses(logits, label, inside)
    return losses[1] if len(losses) == 2 else losses.mean()


def spatial_divergence(first: Tensor, second: Tensor, overlap: Overlap) -> Tensor:
    """KL(second || first) along the first spatial axis, where the paper has it over classes.

    Softmax of clamped logits is taken along that axis, so this asks where along a line they are
    large, not which class is likely. A mean over classes and voxels, summed over the crops.
    """
    divergences = []
    for index, (here, there) in enumerate(overlap.boxes):
        own = _clamped(first[index][:, *here.slices]).log_softmax(dim=1)
        other = _clamped(second[index][:, *there.slices]).log_softmax(dim=1)
        inside = overlap.inside[index][here.slices].expand_as(own)
        divergences.append(masked_mean(other.exp() * (other - own), inside))
    return torch.stack(divergences).sum()


def clamped_negative_entropy(first: Tensor, second: Tensor, overlap: Overlap) -> Tensor:
    """Negative entropy, a mean over crops, of logits clamped to [1e-6, 1]: no gradient outside."""
    entropies = []
    for index, (here, there) in enumerate(overlap.boxes):
        inside = overlap.inside[index][here.slices]
        for logits in (first[index][:, *here.slices], second[index][:, *there.slices]):
            log_probability = _clamped(logits).log_softmax(dim=0)
            voxels = (log_probability.exp() * log_probability).sum(dim=0)
            entropies.append(masked_mean(voxels, inside))
    return torch.stack(entropies).mean()


def binary_crc(
    logits: Tensor, peer: Tensor, inside: Tensor, *, likely: float, unlikely: float
) -> Tensor:
    """CRC with another negative weight: the smallest probability, where the paper has 1 minus it.

    For two classes it is a cross-entropy of confident voxels: the negative part counts almost
    nothing. Each part is the mean of the voxels that pass its gate, not of all voxels.
    """
    peer = peer.detach()
    negative = -_log_complement(logits).gather(1, 1 - most_likely(peer).unsqueeze(1))
    return _gated_positive(logits, peer, inside, likely) + _gated_negative(
        negative, peer, inside, unlikely
    )


def multiclass_crc(
    logits: Tensor, peer: Tensor, inside: Tensor, *, likely: float, unlikely: float
) -> Tensor:
    """The same for more classes, where the release inverts the one-hot labels bit by bit.

    That makes 0 into -1, as meant, but 1 into -2: twice over, the term also unlearns the class
    that the peer is sure of.
    """
    peer = peer.detach()
    one_hot = F.one_hot(most_likely(peer), logits.shape[1]).movedim(-1, 1)
    negative = ~one_hot * _log_complement(logits)
    return _gated_positive(logits, peer, inside, likely) + _gated_negative(
        negative, peer, inside, unlikely
    )


def _gated_positive(logits: Tensor, peer: Tensor, inside: Tensor, likely: float) -> Tensor:
    confidence, label = peer.max(dim=1)
    taught = confidence * F.cross_entropy(logits, label, reduction="none")
    return masked_mean(taught, inside & (confidence >= likely))


def _gated_negative(terms: Tensor, peer: Tensor, inside: Tensor, unlikely: float) -> Tensor:
    """Mean over the classes of the voxels whose least likely class is below the threshold."""
    least = peer.amin(dim=1, keepdim=True)
    gate = inside.unsqueeze(1) & (least < unlikely)
    return masked_mean(least * terms, gate.expand_as(terms))


def _log_complement(logits: Tensor) -> Tensor:
    """log(1 - p), flat where 1 - p is below the clamp."""
    return (1 - logits.softmax(dim=1)).clamp(min=SMALLEST).log()


def _clamped(logits: Tensor) -> Tensor:
    return logits.clamp(SMALLEST, 1.0)
