"""Connected components of a label; voxels that touch at a corner belong together."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def connected_components(mask: NDArray[np.bool_]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The number of each voxel's component, and the size of each component by its number.

    Voxels outside of the mask have the number 0, whose size is given as 0.

    Args:
        mask: a volume, a volume of one slice or an image.
    """
    import cc3d  # noqa: PLC0415 - only a few commands need it

    numbers = cc3d.connected_components(mask, connectivity=8 if mask.ndim == 2 else 26)
    sizes = np.bincount(numbers.ravel())
    sizes[0] = 0
    return numbers, sizes


def keep_largest(label: NDArray[Any]) -> NDArray[Any]:
    """Set all of a class but its largest component to background, 0; the first of equal ones stays.

    Args:
        label: label values of any integer type; a volume, a volume of one slice or an image.
    """
    kept = np.zeros_like(label)
    for value in np.unique(label):
        if value != 0:
            numbers, sizes = connected_components(label == value)
            kept[numbers == sizes.argmax()] = value
    return kept
