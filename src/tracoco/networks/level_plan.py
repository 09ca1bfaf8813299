"""Kernels, strides and widths chosen for a crop in the manner of nnU-Net (Isensee et al. 2021)."""

from collections.abc import Sequence
from dataclasses import dataclass

SMALLEST_EDGE = 4
"""An axis is not halved to fewer voxels than this."""
MOST_HALVINGS = 5
WIDEST = 320

Axes = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LevelPlan:
    """One entry a level, fine to coarse."""

    kernels: tuple[Axes, ...]
    strides: tuple[Axes, ...]
    """From the level above to this one; the first is 1 on every axis."""
    widths: tuple[int, ...]


def plan_levels(crop: Sequence[int], filters: int) -> LevelPlan:
    """Halve each axis for as long as it stays long enough and comes out even.

    A short axis stops before the others: its stride is 1 from there on. Whatever the crop, each
    level has a whole number of voxels, so nothing is cut off on the way down and up again.
    """
    sizes: Axes = tuple(crop)
    kernels, strides = [_kernel(sizes)], [(1,) * len(sizes)]
    while len(strides) <= MOST_HALVINGS and max(_stride(sizes)) > 1:
        strides.append(_stride(sizes))
        sizes = tuple(size // step for size, step in zip(sizes, strides[-1], strict=True))
        kernels.append(_kernel(sizes))
    widths = tuple(min(filters * 2**level, WIDEST) for level in range(len(strides)))
    return LevelPlan(tuple(kernels), tuple(strides), widths)


def _stride(sizes: Axes) -> Axes:
    return tuple(2 if n % 2 == 0 and n // 2 >= SMALLEST_EDGE else 1 for n in sizes)


def _kernel(sizes: Axes) -> Axes:
    # Along a single voxel a wider kernel would see nothing but padding.
    return tuple(1 if n == 1 else 3 for n in sizes)
