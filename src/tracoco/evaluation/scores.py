"""Scores of a case, one for each class, and their means: what counts, and what is never hidden."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from tracoco.errors import UserError, did_you_mean
from tracoco.evaluation import metrics
from tracoco.evaluation.surface import Mask, surface_distances

Units = Literal["mm", "voxel"]
Empty = Literal["missed", "zero"]


@dataclass(frozen=True, slots=True)
class Protocol:
    """Conventions of a score. Papers differ in them, so they stand beside every table."""

    units: Units = "mm"
    """Unit of distances. Papers on these data sets report voxels, whatever a voxel's size is."""
    empty: Empty = "missed"
    """Score of a structure that is empty in prediction or truth.

    missed: overlaps are 0 and distances undefined; the structure is counted as missed or spurious.
    Where both are empty nothing was asked: no score, counted as absent.
    zero: the papers' convention, 0 for overlaps and for distances alike, which flatters distances.
    """
    tolerance: float = 2.0
    """Distance within which a surface is right, for the normalised surface Dice; in `units`."""
    cct: bool = False
    """Whether components too small to be believed are removed from a prediction before it is scored
    (connected-component thresholding)."""

    def __post_init__(self) -> None:
        # A misspelt convention would otherwise be the other one, and nobody would see it.
        for key, value, known in (
            ("units", self.units, get_args(Units)),
            ("empty", self.empty, get_args(Empty)),
        ):
            if value not in known:
                raise UserError(f"{key} '{value}' does not exist; {did_you_mean(value, known)}")
        if not self.tolerance >= 0:
            raise UserError(f"tolerance is {self.tolerance}; it must be 0 or more {self.units}")


@dataclass(frozen=True, slots=True)
class CaseScore:
    """One class of one case. Overlaps and the volume error are fractions; None is undefined."""

    case: str
    label: int
    name: str
    dice: float | None = None
    jaccard: float | None = None
    asd: float | None = None
    assd: float | None = None
    hd95: float | None = None
    nsd: float | None = None
    volume_error: float | None = None
    """Signed: (predicted - true) / true."""
    missed: bool = False
    """The truth has the structure, the prediction does not."""
    spurious: bool = False
    """The prediction has a structure that the truth does not have."""
    absent: bool = False
    """Neither has it."""
    prediction_ml: float | None = None
    truth_ml: float | None = None
    """Volumes, whatever the unit of distances; undefined for an image, which has none."""


def score_case(
    case: str,
    prediction: NDArray[Any],
    truth: NDArray[Any],
    spacing_mm: Sequence[float],
    names: Mapping[int, str],
    protocol: Protocol,
) -> list[CaseScore]:
    """Score each class of `names` in one case.

    Args:
        case: what the case is called in tables.
        prediction: integer label map, 2D or 3D.
        truth: label map on the same grid.
        spacing_mm: size of a voxel along each axis.
        names: class value to name, without the background.
        protocol: unit of distances, and the score of empty masks.
    """
    if prediction.shape != truth.shape:
        raise ValueError(f"{case}: prediction {prediction.shape} and truth {truth.shape} differ")
    scores = []
    for label, name in names.items():
        predicted, true = prediction == label, truth == label
        counted = _count(CaseScore(case, label, name), predicted, true, spacing_mm)
        scores.append(_measure(counted, predicted, true, spacing_mm, protocol))
    return scores


def _count(
    score: CaseScore, prediction: Mask, truth: Mask, spacing_mm: Sequence[float]
) -> CaseScore:
    predicted, true = metrics.voxels(prediction), metrics.voxels(truth)
    voxel_ml = float(np.prod(spacing_mm)) / 1000 if truth.ndim == 3 else None
    return replace(
        score,
        volume_error=metrics.volume_error(prediction, truth),
        missed=bool(true and not predicted),
        spurious=bool(predicted and not true),
        absent=not (predicted or true),
        prediction_ml=None if voxel_ml is None else predicted * voxel_ml,
        truth_ml=None if voxel_ml is None else true * voxel_ml,
    )


def _measure(
    score: CaseScore,
    prediction: Mask,
    truth: Mask,
    spacing_mm: Sequence[float],
    protocol: Protocol,
) -> CaseScore:
    if score.missed or score.spurious or score.absent:
        return _without_surface(score, protocol)
    spacing = spacing_mm if protocol.units == "mm" else (1.0,) * truth.ndim
    distances = surface_distances(*_as_image(prediction, truth, spacing))
    return replace(
        score,
        dice=metrics.dice(prediction, truth),
        jaccard=metrics.jaccard(prediction, truth),
        asd=metrics.asd(distances),
        assd=metrics.assd(distances),
        hd95=metrics.hd95(distances),
        nsd=metrics.nsd(distances, protocol.tolerance),
    )


def _without_surface(score: CaseScore, protocol: Protocol) -> CaseScore:
    if protocol.empty == "zero":
        return replace(score, dice=0.0, jaccard=0.0, nsd=0.0, asd=0.0, assd=0.0, hd95=0.0)
    if score.absent:
        return score
    return replace(score, dice=0.0, jaccard=0.0, nsd=0.0)


def _as_image(
    prediction: Mask, truth: Mask, spacing: Sequence[float]
) -> tuple[Mask, Mask, Sequence[float]]:
    """Take a volume of one slice as an image: as a volume, all its voxels would be surface."""
    if truth.ndim == 2 or 1 not in truth.shape:
        return prediction, truth, spacing
    thin = truth.shape.index(1)
    kept = [size for axis, size in enumerate(spacing) if axis != thin]
    return prediction.squeeze(thin), truth.squeeze(thin), kept
