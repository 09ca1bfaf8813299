"""Whether probabilities mean what they say: of voxels with 90 %, nine of ten should be right."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

BINS = 10
LEAST_FOREGROUND = 0.01
"""Voxels count where all structures together have this probability or more."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Voxels by their confidence, which is the largest of a voxel's class probabilities.

    Voxels that are certainly background by the prediction's own word do not count: they are nearly
    all of a scan, and would make any network look well calibrated. Which voxels count does not
    depend on the truth. Bins are equal parts of 0 to 1; the voxels of all cases are pooled.
    """

    voxels: tuple[int, ...]
    """Of each bin."""
    confidence: tuple[float, ...]
    """Mean confidence of the voxels of each bin; 0 in empty ones."""
    accuracy: tuple[float, ...]
    """Fraction of the voxels of each bin whose most probable class is the true one."""

    @property
    def ece(self) -> float | None:
        """Expected calibration error in percent; None without a voxel.

        The mean of |accuracy - mean confidence| over the bins, weighted by their voxels.
        """
        total = sum(self.voxels)
        if not total:
            return None
        rows = zip(self.voxels, self.confidence, self.accuracy, strict=True)
        return 100 * sum(count * abs(right - sure) for count, sure, right in rows) / total

    @property
    def overconfidence(self) -> float | None:
        """Mean confidence minus accuracy over all voxels that count, in percent."""
        total = sum(self.voxels)
        if not total:
            return None
        rows = zip(self.voxels, self.confidence, self.accuracy, strict=True)
        return 100 * sum(count * (sure - right) for count, sure, right in rows) / total


def calibrate(
    cases: Iterable[tuple[NDArray[np.float32], NDArray[np.integer]]], values: Sequence[int]
) -> Calibration:
    """Pool the voxels of cases.

    Args:
        cases: class probabilities [K, X, Y, Z] and true label values [X, Y, Z] of each.
        values: label values in the order of the classes, background first.
    """
    counts, sums, right = np.zeros(BINS, np.int64), np.zeros(BINS), np.zeros(BINS, np.int64)
    for probability, truth in cases:
        counted = 1 - probability[0] >= LEAST_FOREGROUND
        found = probability[:, counted]
        confidence = found.max(axis=0)
        label = np.array(values)[found.argmax(axis=0)]
        place = np.minimum((confidence * BINS).astype(np.int64), BINS - 1)
        counts += np.bincount(place, minlength=BINS)
        sums += np.bincount(place, weights=confidence, minlength=BINS)
        right += np.bincount(place, weights=label == truth[counted], minlength=BINS).astype(
            np.int64
        )
    some = np.maximum(counts, 1)
    return Calibration(
        tuple(counts.tolist()), tuple((sums / some).tolist()), tuple((right / some).tolist())
    )
