"""Class separation of SS-Net: features of a class lie close to the prototypes of that class."""

import torch.nn.functional as F
from torch import Tensor


def separation_loss(features: Tensor, prototypes: Tensor, scores: Tensor) -> Tensor:
    """Mean of 1 - cosine over all pairs of a feature and a prototype, each feature with its weight.

    It is 0, still connected, where there are no features or no prototypes.

    Args:
        features: of voxels of one class, [N, D].
        prototypes: of that class, [M, D]; no gradient reaches them.
        scores: what a selector makes of each feature, [N]; their sigmoids, divided by the mean of
            them, are the weights.
    """
    attention = scores.sigmoid()
    weight = len(attention) * attention / attention.sum().clamp(min=1e-8)
    # The mean of the cosines is the product with the mean of the prototypes at length one.
    count = max(1, len(prototypes))
    centre = F.normalize(prototypes.detach(), dim=1).sum(dim=0) / count
    distance = 1 - (F.normalize(features, dim=1) * centre).sum(dim=1)
    mean = (weight * distance).sum() / max(1, len(features))
    return mean * min(1, len(prototypes))
