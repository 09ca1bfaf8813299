"""Algorithmic independence of CauSSL: how well filters are explained by other filters."""

import torch
import torch.nn.functional as F
from torch import Tensor


def dependence(own: Tensor, others: Tensor, combination: Tensor) -> Tensor:
    """Mean of the squared cosines between filters and combinations of other filters.

    1 where each filter points along its combination or against it, 0 where all are orthogonal.

    Args:
        own: filters of a layer, one a row, [N, D].
        others: filters of the same layer elsewhere, [M, D]; no gradient reaches them.
        combination: what each row takes of the others, [N, M].
    """
    with torch.autocast(own.device.type, enabled=False):
        explained = combination @ others.detach()
        return F.cosine_similarity(own, explained, dim=1).square().mean()
