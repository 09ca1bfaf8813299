"""The largest component of each class in labels that are tensors."""

import numpy as np
import torch
from torch import Tensor

from tracoco.components import keep_largest


@torch.library.custom_op("tracoco::largest_components", mutates_args=())
def largest_components(labels: Tensor) -> Tensor:
    """Labels [B, ...] in which only the largest component of each class and crop is left.

    What goes is background. It is computed on the CPU; being an operation of torch's, it has a
    shape also where tensors have no values, so that the memory of a step can be counted.
    """
    kept = np.stack([keep_largest(label) for label in labels.cpu().numpy()])
    return torch.from_numpy(kept).to(labels.device)


@largest_components.register_fake
def _shape(labels: Tensor) -> Tensor:
    return torch.empty_like(labels)
