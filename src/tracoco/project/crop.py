"""How much of a scan a network sees at once, so that there is room to translate."""

from collections.abc import Sequence
from math import prod

from tracoco.scans.scan import Shape

MOST_VOXELS = 96**3
THIN = 24
"""An axis of fewer voxels is taken whole: there is no room to translate along it."""


def choose_crop(lengths: Sequence[float], dimensions: int) -> Shape:
    """Crop for scans of these lengths; in 2D the first axis is that of the slices, taken singly."""
    slices = 3 - dimensions
    crop = [1] * slices + [_crop_length(length) for length in lengths[slices:]]
    while prod(crop) > MOST_VOXELS:
        longest = crop.index(max(crop))
        crop[longest] = (crop[longest] - 1) // 16 * 16
    return (crop[0], crop[1], crop[2])


def _crop_length(length: float) -> int:
    """Two thirds of an axis or somewhat less, in a length that networks can halve."""
    if length < THIN:
        return int(-(-length // 8) * 8)
    wide, fine = (int(length * 2 / 3) // step * step for step in (16, 8))
    return wide if wide >= length / 2 else fine
