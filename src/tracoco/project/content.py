"""Where a scan has content: the margin around it, in which nothing changes, is left out."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracoco.geometry import Box, whole


def content_box(array: NDArray[Any]) -> Box:
    """The smallest box around all voxels of [C, X, Y, Z] that differ from the first one.

    A voxel differs if any of its channels does. A constant image has no content and stays whole.
    """
    x, y, z = array.shape[1:]
    along_x = np.zeros(x, dtype=bool)
    across = np.zeros((y, z), dtype=bool)
    # Plane by plane: a mask of a large scan would take a quarter of the scan's memory.
    for channel in array:
        first = channel[0, 0, 0]
        for index, plane in enumerate(channel):
            differs = plane != first
            along_x[index] |= differs.any()
            across |= differs
    if not along_x.any():
        return whole((x, y, z))
    places = [np.flatnonzero(line) for line in (along_x, across.any(axis=1), across.any(axis=0))]
    return Box(
        tuple(int(place[0]) for place in places),
        tuple(int(place[-1] - place[0]) + 1 for place in places),
    )
