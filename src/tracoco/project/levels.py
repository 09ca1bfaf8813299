"""How deep a network goes and which axes each level halves, by the crop and its voxels."""

from collections.abc import Sequence

from tracoco.geometry import Index, Strides, total_stride

SMALLEST = 3
"""An axis is not halved to fewer voxels: a kernel of three would see little but padding."""
LONGER = 2
"""An axis whose voxels are more than so many times longer than the finest waits for the others."""
LEAST_AXES = 2
"""A level that halves fewer axes costs memory and sees little more."""
MOST_LEVELS = 4
"""Below the finest, as many as in the networks of the paper."""


def choose_strides(crop: Sequence[int], spacing_mm: Sequence[float | None]) -> Strides:
    """The levels of a network for a crop; none where not even one can be made.

    Each level halves what can be halved. Where voxels are long along one axis, that axis waits
    until the others have caught up, in the manner of nnU-Net (Isensee et al. 2021): so a kernel
    comes to see as many millimetres along each. An axis of unknown sides does not wait.
    """
    known = [side for side in spacing_mm if side is not None]
    sides = [min(known, default=1.0) if side is None else side for side in spacing_mm]
    sizes = list(crop)
    strides: list[Index] = []
    while len(strides) < MOST_LEVELS:
        stride = _stride(sizes, sides)
        if sum(step == 2 for step in stride) < LEAST_AXES:
            break
        sizes = [size // step for size, step in zip(sizes, stride, strict=True)]
        sides = [side * step for side, step in zip(sides, stride, strict=True)]
        strides.append(stride)
    return tuple(strides)


def _stride(sizes: Sequence[int], sides: Sequence[float]) -> Index:
    able = [size % 2 == 0 and size // 2 >= SMALLEST for size in sizes]
    # An axis that has come to its end must not keep the others waiting.
    finest = min((side for side, can in zip(sides, able, strict=True) if can), default=0.0)
    ready = [can and side <= LONGER * finest for can, side in zip(able, sides, strict=True)]
    # Nor does it wait where too few others would make a level without it.
    halved = ready if sum(ready) >= LEAST_AXES else able
    return tuple(2 if half else 1 for half in halved)


def form_problem(strides: Strides, dimensions: int) -> str:
    """What is wrong with strides as a person wrote them; empty if nothing is."""
    if any(len(stride) != dimensions for stride in strides):
        return f"each level needs {dimensions} numbers, one an axis"
    if any(not set(stride) <= {1, 2} or 2 not in stride for stride in strides):
        return "each level halves some axes (2) and leaves the others (1)"
    return ""


def crop_problem(strides: Strides, crop: Sequence[int]) -> str:
    """Why a crop cannot go down these levels; empty if it can. Without levels it always can."""
    for axis, (size, step) in enumerate(zip(crop, total_stride(strides), strict=False)):
        if size % step or (step > 1 and size < 2 * step):
            return f"{size} voxels along axis {axis} do not make 2 or more of {step} each"
    return ""
