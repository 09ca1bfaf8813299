"""Relations of CAML: two networks must compare a voxel with the same prototypes alike."""

import torch
from torch import Tensor


def relation_loss(
    learner: Tensor, peer: Tensor, prototypes: Tensor, *, temperature: float
) -> Tensor:
    """Cross-entropy of two networks' shares of similarity, mean over voxels.

    It is 0, still connected, where there are no voxels or no prototypes.

    Args:
        learner: one network's features of some voxels, [N, D].
        peer: the other's of the same voxels; a gradient reaches them too, unless detached.
        prototypes: features of labelled voxels, [M, D].
        temperature: what similarities are divided by.
    """
    with torch.autocast(learner.device.type, enabled=False):
        own, other = (
            (features @ prototypes.detach().T / temperature).softmax(dim=1)
            for features in (learner, peer)
        )
        # As released: what one network rules out costs the other no more than log(1e-8).
        return -(other * (own + 1e-8).log()).sum() / max(1, len(learner))
