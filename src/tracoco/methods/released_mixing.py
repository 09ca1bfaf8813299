"""How the authors' release mixes crops, and how its ACDC variant cleans pseudo-labels."""

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Beta

from tracoco.components import keep_largest
from tracoco.losses.weighting import most_likely
from tracoco.methods.mixing import Mix


def draw_released_mix(count: int, size: torch.Size) -> Mix:
    """A box in the first two axes through all of the others; a crop may be its own partner.

    All boxes of a batch have one size; the centre is never in the first eighth of an axis, and a
    box that would stick out is cut off.
    """
    share = float((1 - Beta(4.0, 4.0).sample()).sqrt())
    mask = torch.zeros((count, *size), dtype=torch.bool)
    for index in range(count):
        box = []
        for length in size[:2]:
            half = int(length * share) // 2
            centre = int(torch.randint(length // 8, length, ()))
            box.append(slice(max(0, centre - half), min(length, centre + half)))
        mask[index][tuple(box)] = True
    return Mix(torch.randperm(count), mask)


def keep_largest_components(logits: Tensor) -> Tensor:
    """Logits times a mask of the largest component of each class, fully connected, crop by crop.

    A voxel that is taken from its class keeps its background's logit alone, which may not be its
    largest. Crops of which all are of one class are left as they are.
    """
    labels = most_likely(logits).cpu().numpy()
    if len(np.unique(labels)) == 1:
        return logits
    kept = np.stack([keep_largest(label) for label in labels])
    chosen = torch.from_numpy(kept).to(logits.device)
    return logits * nn.functional.one_hot(chosen, logits.shape[1]).movedim(-1, 1)
