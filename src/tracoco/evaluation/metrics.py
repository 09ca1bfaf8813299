"""Metrics of one structure, each with its exact definition: papers use the same names for several.

Overlaps are fractions; distances have the unit of the spacing that they were computed with; None
stands for what is undefined.
"""

import numpy as np

from tracoco.evaluation.surface import Mask, SurfaceDistances

ROUNDING = 1e-5
"""Relative slack of a tolerance: three voxels of 0.1 mm are within 0.3 mm, also as floats."""


def voxels(mask: Mask) -> int:
    """Size of a mask."""
    return int(np.count_nonzero(mask))


def dice(prediction: Mask, truth: Mask) -> float | None:
    """Twice the shared voxels over the voxels of both; undefined for two empty masks."""
    return _share(2 * voxels(prediction & truth), voxels(prediction) + voxels(truth))


def jaccard(prediction: Mask, truth: Mask) -> float | None:
    """Shared voxels over the voxels of either; undefined for two empty masks."""
    return _share(voxels(prediction & truth), voxels(prediction | truth))


def volume_error(prediction: Mask, truth: Mask) -> float | None:
    """Relative volume error, signed: (predicted - true) / true; +0.1 is a tenth too large.

    Undefined where the truth is empty. medpy calls this `ravd`.
    """
    return _share(voxels(prediction) - voxels(truth), voxels(truth))


def asd(distances: SurfaceDistances) -> float:
    """Average surface distance, one way: from the prediction's surface to the truth's.

    This is medpy's `asd` and the "ASD" of the papers. It does not see what the prediction lacks.
    """
    return float(distances.to_truth.mean())


def assd(distances: SurfaceDistances) -> float:
    """Average symmetric surface distance: one mean over the pooled distances of both directions.

    As in medpy 0.5.2 and MONAI. The mean of the two directions' means is another number.
    """
    return float(distances.pooled.mean())


def hd95(distances: SurfaceDistances) -> float:
    """95th percentile of the pooled distances of both directions, as in medpy.

    MONAI takes the larger of the two directions' percentiles, which is another number.
    """
    return float(np.percentile(distances.pooled, 95))


def nsd(distances: SurfaceDistances, tolerance: float) -> float:
    """Normalised surface Dice: share of both surfaces' voxels within `tolerance` of the other.

    As in MONAI without subvoxels: each surface voxel counts as one, whatever its area.
    """
    return float(np.mean(distances.pooled <= tolerance * (1 + ROUNDING)))


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
