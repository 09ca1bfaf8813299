"""How much of a scan a network sees at once, so that there is room to translate."""

from collections.abc import Callable, Sequence

from tracoco.scans.scan import Shape

THIN = 24
"""An axis of fewer voxels is taken whole: there is no room to translate along it."""
LEAST = 32
"""For want of memory an axis is cut to this and no further: networks must be able to halve it."""

Fits = Callable[[Shape], bool]


def choose_crop(lengths: Sequence[float], dimensions: int, fits: Fits) -> Shape:
    """Crop for scans of these lengths; in 2D the first axis is that of the slices, taken singly.

    Where it does not fit, the longest axis is cut, so that the few voxels along a thick axis are
    kept.
    """
    slices = 3 - dimensions
    a, b, c = [1] * slices + [_crop_length(length) for length in lengths[slices:]]
    crop = (a, b, c)
    while not fits(crop) and max(crop) > LEAST:
        crop = _cut(crop)
    return crop


def _cut(crop: Shape) -> Shape:
    longest = crop.index(max(crop))
    a, b, c = ((n - 1) // 16 * 16 if axis == longest else n for axis, n in enumerate(crop))
    return (a, b, c)


def _crop_length(length: float) -> int:
    """Two thirds of an axis or somewhat less, in a length that networks can halve."""
    if length < THIN:
        return int(-(-length // 4) * 4)
    wide, fine = (int(length * 2 / 3) // step * step for step in (16, 8))
    return wide if wide >= length / 2 else fine
