"""Metrics of one structure, each with its exact definition: papers use the same names for several.

Overlaps are fractions; distances have the unit of the spacing that they were computed with; None
stands for what is undefined.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import edt
import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree

Mask = NDArray[np.bool_]

DENSE = 1 / 8
"""Fraction of surface voxels in a box from which a map of the box is faster than a search tree.

Of boxes of 32 to 96 voxels a side, the tree was faster up to a tenth, the map at a fifth of the
larger ones."""


@dataclass(frozen=True, slots=True, eq=False)
class SurfaceDistances:
    """How far each surface voxel is from the other surface, in the unit of the spacing."""

    to_truth: NDArray[np.float64]
    """One distance for each surface voxel of the prediction."""
    to_prediction: NDArray[np.float64]
    """One distance for each surface voxel of the truth."""

    @property
    def pooled(self) -> NDArray[np.float64]:
        """Both directions together."""
        return np.concatenate((self.to_truth, self.to_prediction))


def surface_distances(
    prediction: Mask, truth: Mask, spacing_mm: Sequence[float], drawn: Mask | None = None
) -> SurfaceDistances:
    """Distances from surface voxel to nearest surface voxel, both ways, for 2D and 3D masks.

    Equal to those of medpy (connectivity 1) up to the rounding of 32-bit distances, 1e-6. Where
    only some voxels are `drawn`, a border to others is no surface: so much of both surfaces as is
    known is compared, and a structure that fills all drawn voxels has none.
    """
    _check(prediction, truth, spacing_mm)
    if drawn is None:
        box = _bounding_box(prediction | truth)
        predicted, true = surface(prediction[box]), surface(truth[box])
    else:
        predicted, true = (surface(mask | ~drawn) & drawn for mask in (prediction, truth))
        if not (predicted.any() and true.any()):
            return SurfaceDistances(np.zeros(0), np.zeros(0))
        box = _bounding_box(predicted | true)
        predicted, true = predicted[box], true[box]
    count = np.count_nonzero(predicted) + np.count_nonzero(true)
    distances = _by_map if count > DENSE * predicted.size else _by_tree
    return SurfaceDistances(
        to_truth=distances(predicted, true, spacing_mm),
        to_prediction=distances(true, predicted, spacing_mm),
    )


def surface(mask: Mask) -> Mask:
    """Voxels of a mask with a face neighbour outside it; beyond the array's border is outside."""
    padded = np.pad(mask, 1)
    valid = mask.copy()
    for axis in range(mask.ndim):
        for neighbour in (slice(None, -2), slice(2, None)):
            window = [slice(1, -1)] * mask.ndim
            window[axis] = neighbour
            valid &= padded[tuple(window)]
    return mask & ~valid


def _by_tree(voxels: Mask, target: Mask, spacing_mm: Sequence[float]) -> NDArray[np.float64]:
    """Of an organ: there are few surface voxels, and the nearest is never far."""
    here, there = (np.argwhere(mask) * np.asarray(spacing_mm) for mask in (voxels, target))
    # Points of a grid need no balance, and the tree is made for one search alone.
    tree = KDTree(there, compact_nodes=False, balanced_tree=False)
    distance: NDArray[np.float64] = tree.query(here)[0]
    return distance


def _by_map(voxels: Mask, target: Mask, spacing_mm: Sequence[float]) -> NDArray[np.float64]:
    """Of scattered voxels, as an untrained network predicts them."""
    # The transform measures to the nearest zero; black_border would make the array's edge one.
    # C order, since edt documents that it may read the spacings backwards in Fortran order.
    outside = np.ascontiguousarray(~target)
    distance: NDArray[np.float32] = edt.edt(
        outside, anisotropy=tuple(map(float, spacing_mm)), black_border=False
    )
    return distance[voxels].astype(np.float64)


def _bounding_box(mask: Mask) -> tuple[slice, ...]:
    axes = range(mask.ndim)
    filled = (np.flatnonzero(mask.any(axis=tuple(a for a in axes if a != axis))) for axis in axes)
    return tuple(slice(int(found[0]), int(found[-1]) + 1) for found in filled)


def _check(prediction: Mask, truth: Mask, spacing_mm: Sequence[float]) -> None:
    if prediction.shape != truth.shape:
        raise ValueError(f"prediction {prediction.shape} and truth {truth.shape} differ in shape")
    if prediction.ndim not in (2, 3) or len(spacing_mm) != prediction.ndim:
        raise ValueError(
            f"masks of {prediction.ndim} axes with {len(spacing_mm)} spacings; "
            "surfaces are those of 2D or 3D masks, with one spacing an axis"
        )
    if not (prediction.any() and truth.any()):
        raise ValueError("an empty mask has no surface, so the distance to it is undefined")


ROUNDING = 1e-5
"""Relative slack of a tolerance: three voxels of 0.1 mm are within 0.3 mm, also as floats."""


def voxels(mask: Mask) -> int:
    """Size of a mask."""
    return int(np.count_nonzero(mask))


def dice(prediction: Mask, truth: Mask) -> float | None:
    """Twice the shared voxels over the voxels of both; undefined for two empty masks."""
    return _ratio(2 * voxels(prediction & truth), voxels(prediction) + voxels(truth))


def jaccard(prediction: Mask, truth: Mask) -> float | None:
    """Shared voxels over the voxels of either; undefined for two empty masks."""
    return _ratio(voxels(prediction & truth), voxels(prediction | truth))


def volume_error(prediction: Mask, truth: Mask) -> float | None:
    """Relative volume error, signed: (predicted - true) / true; +0.1 is a tenth too large.

    Undefined where the truth is empty. medpy calls this `ravd`.
    """
    return _ratio(voxels(prediction) - voxels(truth), voxels(truth))


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
    """Normalised surface Dice: fraction of both surfaces' voxels within `tolerance` of the other.

    As in MONAI without subvoxels: each surface voxel counts as one, whatever its area.
    """
    return float(np.mean(distances.pooled <= tolerance * (1 + ROUNDING)))


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None
