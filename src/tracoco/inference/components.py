"""Connected-component thresholding (CCT): specks of a prediction go, structures stay."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracoco.components import connected_components

SHARE = 1 / 1500
"""Of all voxels of a volume, as in the paper: a smaller component is taken to be a speck."""


def remove_small_components(label: NDArray[Any], share: float = SHARE) -> NDArray[Any]:
    """Set every component that is smaller than `share` of the volume to background.

    The largest component of a class always stays: a small structure is not a missed one.

    Args:
        label: label values of any integer type, 0 for the background; a volume, a volume of one
            slice or an image. Voxels that touch at a corner belong to one component.
        share: of the number of voxels of `label`.
    """
    cleaned = label.copy()
    for value in np.unique(label):
        if value != 0:
            cleaned[_small_components(label == value, share)] = 0
    return cleaned


def _small_components(mask: NDArray[np.bool_], share: float) -> NDArray[np.bool_]:
    numbers, sizes = connected_components(mask)
    small = sizes < share * mask.size
    small[0] = small[sizes.argmax()] = False
    found: NDArray[np.bool_] = small[numbers]
    return found
