"""Signed distances to the surfaces of labels, and how far a network's maps are from them."""

import edt
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tracoco.losses.weighting import masked_mean

Mask = NDArray[np.bool_]


def distance_loss(maps: Tensor, target: Tensor, counted: Tensor) -> Tensor:
    """Squared difference of signed distances [B, C - 1, ...], mean over voxels and classes.

    Args:
        maps: what a network says.
        target: what the labels say, from `signed_distances`.
        counted: false where a voxel does not count, [B, 1, ...], or [B, C - 1, ...] by class.
    """
    return masked_mean((maps - target).square(), counted.expand_as(maps))


def signed_distances(labels: Tensor, inside: Tensor, classes: int) -> Tensor:
    """Signed distance of each voxel to the surface of each foreground class: [B, C - 1, ...].

    Negative within the class, 0 on its outermost voxels, and divided by the largest distance of
    the crop, on each side by itself: from -1 to 1. A crop without the class has 0 everywhere, and
    one that is nothing else has -1.

    Args:
        labels: class indices, [B, ...].
        inside: false where the crop is padding, [B, ...]. Padding has 0 and belongs to neither
            side: a structure that meets it has no surface there, as at the edge of the crop.
        classes: how many there are, the background among them.
    """
    distances: Tensor = _signed_distances(labels, inside, classes)
    return distances


def present_classes(labels: Tensor, inside: Tensor, classes: int) -> Tensor:
    """Whether each crop has a voxel of each foreground class: [B, C - 1]."""
    found = [((labels == k) & inside).flatten(1).any(dim=1) for k in range(1, classes)]
    return torch.stack(found, dim=1)


# The transform is not torch's. As an operation of its own it has a shape where there are no values
# to compute with, so that the memory of a step can be counted.
@torch.library.custom_op("tracoco::signed_distances", mutates_args=())
def _signed_distances(labels: Tensor, inside: Tensor, classes: int) -> Tensor:
    crops = zip(labels.cpu().numpy(), inside.cpu().numpy(), strict=True)
    maps = [
        np.stack([mask_distance(label == k, counted) for k in range(1, classes)])
        for label, counted in crops
    ]
    return torch.from_numpy(np.stack(maps)).to(labels.device)


@_signed_distances.register_fake
def _(labels: Tensor, inside: Tensor, classes: int) -> Tensor:  # noqa: ARG001 - the signature
    shape = (len(labels), classes - 1, *labels.shape[1:])
    return labels.new_empty(shape, dtype=torch.float32)


def mask_distance(mask: Mask, inside: Mask) -> NDArray[np.float32]:
    """Signed distance of each voxel to the surface of one mask, in the terms of the whole crop."""
    mask = mask & inside
    background = inside & ~mask
    distance = np.zeros(mask.shape, dtype=np.float32)
    if not mask.any():
        return distance
    if not background.any():
        distance[mask] = -1
        return distance
    # The transform measures to the nearest zero; black_border would make the crop's edge one.
    outer = edt.edt(np.ascontiguousarray(~mask), black_border=False)[background]
    inner = edt.edt(np.ascontiguousarray(~background), black_border=False)[mask]
    distance[background] = outer / outer.max()
    # Only a voxel that has the background beside it is one voxel away from it.
    distance[mask] = np.where(inner == 1, 0, -inner / inner.max())
    return distance
