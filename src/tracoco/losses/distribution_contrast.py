"""Contrast with the distribution of each class (PatchCL): near to its own, far from others."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class ClassDistributions:
    """Mean and covariance of each class's embeddings; both are 0 for a class without any."""

    mean: Tensor
    """[C, D]."""
    covariance: Tensor
    """[C, D, D]."""
    present: Tensor
    """Whether a class has embeddings, [C]."""


def distribution_contrast(
    embeddings: Tensor,
    label: Tensor,
    classes: ClassDistributions,
    *,
    temperature: float,
    spread: float,
    negatives: float,
) -> Tensor:
    """What each embedding v of class c loses, [N].

    It is -v.m_c / t + log(exp(a_c) + n / K sum over the others of exp(a_j)), where
    a_j = v.m_j / t + s / (2 t^2) v.S_j v is what many draws from class j come to on average.

    Args:
        embeddings: of length one, [N, D].
        label: the class of each, [N].
        classes: means m and covariances S; no gradient reaches them. Those that are not present
            are left out, K is the number of the others.
        temperature: t.
        spread: s, how much a covariance counts.
        negatives: n, how many draws the other classes stand for.
    """
    # In full precision: covariances are small and count much.
    with torch.autocast(embeddings.device.type, enabled=False):
        embeddings, mean = embeddings.float(), classes.mean.detach()
        similarity = embeddings @ mean.T / temperature
        along = torch.einsum("nd,cde,ne->nc", embeddings, classes.covariance.detach(), embeddings)
        drawn = similarity + spread / (2 * temperature**2) * along
        count = classes.present.sum().clamp(min=1)
        weight = (negatives / count * classes.present).expand_as(drawn)
        weight = weight.scatter(1, label.unsqueeze(1), 1.0)
        own = similarity.gather(1, label.unsqueeze(1)).squeeze(1)
        return (drawn + weight.log()).logsumexp(dim=1) - own
