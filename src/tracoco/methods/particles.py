"""Several adversarial perturbations of a crop that keep apart (Stein variational gradient)."""

import torch
from torch import Tensor


def stein_directions(particles: Tensor, scores: Tensor, variances: Tensor) -> Tensor:
    """Where each particle goes: along the scores of all that are near, and away from them.

    phi_n = 1/N sum_m [k(x_m, x_n) s_m + grad_m k(x_m, x_n)], with the Gaussian kernel
    k(x, y) = exp(-|x - y|^2 / (2 variance)) among the particles of one crop.

    Args:
        particles: perturbations, [N, B, ...].
        scores: where the distance of answers grows fastest at each of them, [N, B, ...].
        variances: of the kernel of each crop, [B].
    """
    with torch.autocast(particles.device.type, enabled=False):
        places, pulls = (each.flatten(2).transpose(0, 1) for each in (particles, scores))
        width = variances.reshape(-1, 1, 1)
        kernel = torch.exp(-_squared_distances(places) / (2 * width))
        crowd = kernel.sum(dim=2, keepdim=True)
        repelled = (crowd * places - kernel @ places) / width
        directions = (kernel @ pulls + repelled) / len(particles)
    return directions.transpose(0, 1).reshape(particles.shape)


def median_variances(particles: Tensor) -> Tensor:
    """The median of the squared distances between the particles of each crop, [B].

    So that neighbours are felt, however many dimensions there are; 1 for a particle alone.
    """
    count = len(particles)
    if count == 1:
        return torch.ones(particles.shape[1], device=particles.device)
    squared = _squared_distances(particles.flatten(2).transpose(0, 1))
    # Behind each distance of a particle to itself come `count` others, up to the next such one.
    pairs = squared.flatten(1)[:, 1:].reshape(-1, count - 1, count + 1)[..., :-1]
    return pairs.flatten(1).median(dim=1).values.clamp(min=1e-12)


def _squared_distances(places: Tensor) -> Tensor:
    """Between all particles of each crop, from [B, N, D] to [B, N, N]."""
    return torch.cdist(places, places).square()
