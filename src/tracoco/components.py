"""Connected components of a label, and thresholding by their size (CCT)."""

from collections.abc import Collection
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


def keep_largest(label: NDArray[Any], values: Collection[int] | None = None) -> NDArray[Any]:
    """Set all of a class but its largest component to background, 0; the first of equal ones stays.

    Args:
        label: label values of any integer type; a volume, a volume of one slice or an image.
        values: the classes that this is done to; all if not given.
    """
    kept = label.copy()
    for value in np.unique(label):
        if value != 0 and (values is None or value in values):
            numbers, sizes = connected_components(label == value)
            kept[(numbers != sizes.argmax()) & (numbers != 0)] = 0
    return kept


SMALL_FRACTION = 1 / 1500
"""Of all voxels of a volume, as in the paper: a smaller component is taken to be noise."""


def remove_small_components(label: NDArray[Any], fraction: float = SMALL_FRACTION) -> NDArray[Any]:
    """Set every component that is smaller than `fraction` of the volume to background.

    The largest component of a class always stays: a small structure is not a missed one.

    Args:
        label: label values of any integer type, 0 for the background; a volume, a volume of one
            slice or an image. Voxels that touch at a corner belong to one component.
        fraction: of the number of voxels of `label`.
    """
    cleaned = label.copy()
    for value in np.unique(label):
        if value != 0:
            cleaned[_small_components(label == value, fraction)] = 0
    return cleaned


def remove_components_below(label: NDArray[Any], voxels: float) -> NDArray[Any]:
    """Set every component of fewer voxels to background; the largest of a class always stays."""
    return remove_small_components(label, voxels / label.size)


def _small_components(mask: NDArray[np.bool_], fraction: float) -> NDArray[np.bool_]:
    numbers, sizes = connected_components(mask)
    small = sizes < fraction * mask.size
    small[0] = small[sizes.argmax()] = False
    found: NDArray[np.bool_] = small[numbers]
    return found
