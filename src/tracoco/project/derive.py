"""The rules of a plan, one function each: spacing, slices, windows, levels of the network."""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from tracoco.geometry import Size, Strides
from tracoco.project.case_statistics import CaseStatistics, Intensities
from tracoco.project.fingerprint import Fingerprint
from tracoco.scans.scan import Shape, Spacing

Axis = Literal[0, 1, 2]
Window = tuple[float, float]
Voxels = Literal["above_background", "above_air", "all"]
"""The voxels of a scan whose intensities say what it is normalised by."""

AXES: tuple[Axis, Axis, Axis] = (0, 1, 2)
ANISOTROPIC = 3
"""An axis is thick if its voxels are so many times longer than others, and so many times fewer."""
FINE_SLICES = 10
"""Percentile of the spacing along a thick axis that scans are brought to."""
AIR = -500
"""Hounsfield units: air is -1000, and no other kind of scan goes so low."""
DARK = 0.1
"""Voxels below this fraction of the way from the 0.5 to the 99.5 percentile are as dark as air."""
SMALLEST = 3
"""An axis is not halved to fewer voxels: a kernel of three would see little but padding."""
LONGER = 2
"""An axis whose voxels are more than so many times longer than the finest waits for the others."""
LEAST_AXES = 2
"""A level that halves fewer axes costs memory and sees little more."""
MOST_LEVELS = 4
"""Below the finest, as many as in the networks of the paper."""


def median_of(rows: Sequence[Sequence[float]]) -> tuple[float, float, float]:
    """Median of each of three columns."""
    a, b, c = (float(value) for value in np.median(np.array(rows, dtype=float), axis=0))
    return (a, b, c)


def with_spacing(cases: Sequence[CaseStatistics]) -> list[CaseStatistics]:
    """The scans that state their spacing; all of them if none does."""
    return [case for case in cases if case.has_geometry] or list(cases)


def choose_spacing(cases: Sequence[CaseStatistics], dimensions: int) -> Spacing:
    """The median, or a finer one along a thick axis; by canonical axes.

    Slices are few along a thick axis, and the median would leave out some of every other scan.
    They are interpolated instead, though never finer than the other axes. In 2D slices stay as
    they are.
    """
    spacings = [case.spacing_mm for case in with_spacing(cases)]
    median = median_of(spacings)
    thick = thick_axis(cases)
    if thick is None or dimensions == 2:
        return median
    fine = float(np.percentile([spacing[thick] for spacing in spacings], FINE_SLICES))
    fine = max(fine, *(median[axis] for axis in AXES if axis != thick))
    x, y, z = (fine if axis == thick else median[axis] for axis in AXES)
    return (x, y, z)


def thick_axis(cases: Sequence[CaseStatistics]) -> Axis | None:
    """The axis along which voxels are few and long, if there is one."""
    known = with_spacing(cases)
    spacing = median_of([case.spacing_mm for case in known])
    shape = median_of([case.shape for case in known])
    thick = max(AXES, key=lambda axis: spacing[axis])
    others = [axis for axis in AXES if axis != thick]
    long = spacing[thick] > ANISOTROPIC * max(spacing[axis] for axis in others)
    few = ANISOTROPIC * shape[thick] < min(shape[axis] for axis in others)
    return thick if long and few else None


def choose_slice_axis(cases: Sequence[CaseStatistics]) -> Axis:
    """The axis of the longest voxels; of equal ones that with the fewest, then the last.

    Without spacing all are equal: slices are then fewer than the rows and columns of one.
    """
    spacing = median_of([case.spacing_mm for case in with_spacing(cases)])
    shape = median_of([case.shape for case in cases])
    return max(AXES, key=lambda axis: (round(spacing[axis], 3), -shape[axis], axis))


def slices_first(axis: int) -> Shape:
    """The canonical axis of each stored axis of a 2D project."""
    second, third = (other for other in AXES if other != axis)
    return (axis, second, third)


def choose_windows(fingerprint: Fingerprint) -> tuple[Window | None, ...]:
    """For each channel the foreground's percentiles if it is a CT, else none.

    The numbers of a CT mean the same in every scan, those of other scans do not.
    """
    channels = range(fingerprint.cases[0].channels)
    if not fingerprint.foreground:
        return tuple(None for _ in channels)
    foreground = fingerprint.foreground
    return tuple(
        (foreground[channel].low, foreground[channel].high)
        if is_ct(fingerprint.cases, channel) and foreground[channel].low < foreground[channel].high
        else None
        for channel in channels
    )


def is_ct(cases: Sequence[CaseStatistics], channel: int) -> bool:
    """Whether a channel looks like Hounsfield units in most scans."""
    return 2 * looking_like_ct(cases, channel) > len(cases)


def looking_like_ct(cases: Sequence[CaseStatistics], channel: int) -> int:
    """How many scans have whole numbers in this channel, some of them as low as air."""
    return sum(_hounsfield(case.intensities[channel]) for case in cases if case.intensities)


def _hounsfield(values: Intensities) -> bool:
    return values.integers and values.lowest <= AIR


def choose_statistics(cases: Sequence[CaseStatistics]) -> tuple[Voxels, ...]:
    """For each channel the voxels that suit most of its scans; all if nothing is known of them."""
    found = [suitable_voxels(cases, channel) for channel in range(cases[0].channels)]
    return tuple(
        max(counts, key=counts.__getitem__) if any(counts.values()) else "all" for counts in found
    )


def suitable_voxels(cases: Sequence[CaseStatistics], channel: int) -> dict[Voxels, int]:
    """How many scans each choice suits in this channel; constant scans suit none.

    Of two that suit equally many, the earlier one does less harm to the scans of the other.
    """
    counts: dict[Voxels, int] = {"above_air": 0, "above_background": 0, "all": 0}
    for case in cases:
        if case.intensities and (suits := _suitable(case.intensities[channel])):
            counts[suits] += 1
    return counts


def _suitable(values: Intensities) -> Voxels | None:
    low, dark, median, _, high = values.percentiles
    if high <= low:
        return None
    if median == low:
        return "above_background"
    if median - low < DARK * (high - low):
        return "above_air"
    return "above_background" if dark == low else "all"


def choose_strides(crop: Sequence[int], spacing_mm: Sequence[float | None]) -> Strides:
    """The levels of a network for a crop; none where not even one can be made.

    Each level halves what can be halved. Where voxels are long along one axis, that axis waits
    until the others have caught up, in the manner of nnU-Net (Isensee et al. 2021): so a kernel
    comes to see as many millimetres along each. An axis of unknown sides does not wait.
    """
    known = [side for side in spacing_mm if side is not None]
    spacing = [min(known, default=1.0) if side is None else side for side in spacing_mm]
    sizes = list(crop)
    strides: list[Size] = []
    while len(strides) < MOST_LEVELS:
        stride = _stride(sizes, spacing)
        if sum(step == 2 for step in stride) < LEAST_AXES:
            break
        sizes = [size // step for size, step in zip(sizes, stride, strict=True)]
        spacing = [side * step for side, step in zip(spacing, stride, strict=True)]
        strides.append(stride)
    return tuple(strides)


def _stride(sizes: Sequence[int], spacing: Sequence[float]) -> Size:
    able = [size % 2 == 0 and size // 2 >= SMALLEST for size in sizes]
    # An axis that has come to its end must not keep the others waiting.
    finest = min((side for side, can in zip(spacing, able, strict=True) if can), default=0.0)
    ready = [can and side <= LONGER * finest for can, side in zip(able, spacing, strict=True)]
    # Nor does it wait where too few others would make a level without it.
    halved = ready if sum(ready) >= LEAST_AXES else able
    return tuple(2 if half else 1 for half in halved)
