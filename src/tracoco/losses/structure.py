"""How alike the voxels of an answer are to each other: the local structure of LG-ER-MT."""

import torch
import torch.nn.functional as F
from torch import Tensor

from tracoco.losses.weighting import masked_mean


def similarity_loss(own: Tensor, other: Tensor, inside: Tensor) -> Tensor:
    """Squared difference of two answers' similarities of voxels, mean over all pairs of voxels.

    The similarity of two voxels is the cosine between their class probabilities. A cube of 16
    voxels a side has 16 million pairs, but no matrix of them is needed: with the directions as
    columns of S and T, and D = S - T, the sum over the pairs of (S'S - T'T) squared is
    <SS' + TT', DD'> + 2 <SD', DT'>, and these matrices are as small as the number of classes.

    Args:
        own: class probabilities of cubes, [B, C, ...]; these learn.
        other: those of the teacher; no gradient reaches them.
        inside: false where a cube is padding, [B, ...]; such voxels are in no pair.
    """
    counted = inside.flatten(1)
    # In full precision: half of it would round away how little a teacher differs.
    with torch.autocast(own.device.type, enabled=False):
        learner, teacher = (
            F.normalize(answer.float().flatten(2), dim=1) * counted.unsqueeze(1)
            for answer in (own, other.detach())
        )
        apart = learner - teacher
        squares = (learner @ learner.mT + teacher @ teacher.mT) * (apart @ apart.mT)
        crossed = (learner @ apart.mT) * (apart @ teacher.mT)
        total = (squares + 2 * crossed).sum(dim=(1, 2))
    pairs = counted.sum(dim=1).square()
    return masked_mean(total / pairs.clamp(min=1), pairs > 0)
