"""Contrast between the vectors that stand for the classes of crops (SCC)."""

import torch
import torch.nn.functional as F
from torch import Tensor


def class_contrast(labelled: Tensor, unlabelled: Tensor, *, temperature: float) -> Tensor:
    """Attract vectors of one class, repel those of others; a sum over classes, a mean over pairs.

    For each class of a labelled crop: minus its cosine similarity to the same class of an
    unlabelled crop, plus the mean of those to the other classes. The published form is the one for
    two classes. Crops are paired in their order, or each with each where their numbers differ.

    Args:
        labelled: a vector for each class of the labelled crops, [L, C, D].
        unlabelled: the same of the unlabelled crops, [U, C, D].
        temperature: what similarities are divided by.
    """
    classes = labelled.shape[1]
    if len(labelled) != len(unlabelled):
        counts = len(labelled), len(unlabelled)
        labelled = labelled.repeat_interleave(counts[1], dim=0)
        unlabelled = unlabelled.repeat(counts[0], 1, 1)
    similarity = F.normalize(labelled, dim=2) @ F.normalize(unlabelled, dim=2).mT
    same = torch.eye(classes, device=labelled.device)
    others = (1 - same) / (classes - 1)
    return ((others - same) * similarity).sum(dim=(1, 2)).mean() / temperature
