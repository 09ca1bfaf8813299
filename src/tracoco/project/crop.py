"""How much of a scan a network sees at once, so that there is room to translate."""

from collections.abc import Sequence
from math import prod

from tracoco.scans.scan import Shape

MOST_VOXELS = 96**3
"""As much as the paper's crops have: time grows with the voxels, whatever the memory."""
THIN = 24
"""An axis of fewer voxels is taken whole: there is no room to translate along it."""
LEAST = 32
"""For want of memory an axis is cut to this and no further: networks must be able to halve it."""


def choose_crop(lengths: Sequence[float], dimensions: int, most_voxels: int = MOST_VOXELS) -> Shape:
    """Crop for scans of these lengths; in 2D the first axis is that of the slices, taken singly.

    Where it has too many voxels, the longest axis is cut, so that the few voxels along a thick
    axis are kept.
    """
    slices = 3 - dimensions
    crop = [1] * slices + [_crop_length(length) for length in lengths[slices:]]
    while prod(crop) > most_voxels and max(crop) > LEAST:
        longest = crop.index(max(crop))
        crop[longest] = (crop[longest] - 1) // 16 * 16
    return (crop[0], crop[1], crop[2])


def _crop_length(length: float) -> int:
    """Two thirds of an axis or somewhat less, in a length that networks can halve."""
    if length < THIN:
        return int(-(-length // 8) * 8)
    wide, fine = (int(length * 2 / 3) // step * step for step in (16, 8))
    return wide if wide >= length / 2 else fine
