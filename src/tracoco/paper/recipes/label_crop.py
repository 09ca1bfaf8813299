"""The box that the field crops a scan to, by its label: what a new scan does not have."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracoco.geometry import Box
from tracoco.scans.scan import Shape, Spacing


@dataclass(frozen=True, slots=True)
class LabelCrop:
    """A box around the label from left to right and from back to front; from feet to head all."""

    least_mm: float
    """A smaller box is widened to this on both sides alike,"""
    margin_mm: float
    """and then so much is added on each side; the scan's edge is the end of it."""

    def box(self, label: NDArray[Any], spacing_mm: Spacing) -> Box:
        """The voxels that stay of a canonical label map [X, Y, Z]; all if it is empty."""
        x, y, z = label.shape
        if not label.any():
            return Box((0, 0, 0), (x, y, z))
        sides = [self._side(label, axis, spacing_mm[axis]) for axis in (0, 1)]
        starts, stops = zip(*sides, (0, z), strict=True)
        size: Shape = tuple(b - a for a, b in zip(starts, stops, strict=True))
        return Box(starts, size)

    def _side(self, label: NDArray[Any], axis: int, side_mm: float) -> tuple[int, int]:
        others = tuple(other for other in range(3) if other != axis)
        held = np.flatnonzero(label.any(axis=others))
        first, last = int(held[0]), int(held[-1])
        short = max(0, round(self.least_mm / side_mm) - (last + 1 - first))
        margin = round(self.margin_mm / side_mm)
        start = first - short // 2 - margin
        stop = last + 1 + (short - short // 2) + margin
        return max(0, start), min(label.shape[axis], stop)
