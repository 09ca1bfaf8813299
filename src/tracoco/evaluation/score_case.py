"""Score one case: every metric of every class, and which structures are missed or invented."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracoco.evaluation import metrics
from tracoco.evaluation.metrics import Mask, surface_distances
from tracoco.evaluation.scores import CaseScore, Protocol
from tracoco.project.labels import UNDRAWN


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
        truth: label map on the same grid, `UNDRAWN` in voxels that count nowhere.
        spacing_mm: size of a voxel along each axis.
        names: class value to name, without the background.
        protocol: unit of distances, and the score of empty masks.
    """
    if prediction.shape != truth.shape:
        raise ValueError(f"{case}: prediction {prediction.shape} and truth {truth.shape} differ")
    scores = []
    known: Mask = truth != UNDRAWN
    undrawn = truth.size - int(np.count_nonzero(known))
    drawn = known if undrawn else None
    for label, name in names.items():
        predicted, true = prediction == label, truth == label
        if drawn is not None:
            predicted &= drawn
        empty = CaseScore(case, label, name, undrawn=undrawn)
        counted = _count(empty, predicted, true, spacing_mm)
        scores.append(_measure(counted, (predicted, true, drawn), spacing_mm, protocol))
    return scores


def _count(
    score: CaseScore, prediction: Mask, truth: Mask, spacing_mm: Sequence[float]
) -> CaseScore:
    predicted, true = metrics.voxels(prediction), metrics.voxels(truth)
    voxel_ml = float(np.prod(spacing_mm)) / 1000 if truth.ndim == 3 else None
    return replace(
        score,
        volume_error=_percent(metrics.volume_error(prediction, truth)),
        missed=bool(true and not predicted),
        spurious=bool(predicted and not true),
        absent=not (predicted or true),
        prediction_ml=None if voxel_ml is None else predicted * voxel_ml,
        truth_ml=None if voxel_ml is None else true * voxel_ml,
    )


def _measure(
    score: CaseScore,
    masks: tuple[Mask, Mask, Mask | None],
    spacing_mm: Sequence[float],
    protocol: Protocol,
) -> CaseScore:
    """Overlaps and distances of prediction and truth, where the third mask says they are drawn."""
    prediction, truth, drawn = masks
    if score.missed or score.spurious or score.absent:
        return _without_surface(score, protocol)
    spacing = spacing_mm if protocol.units == "mm" else (1.0,) * truth.ndim
    score = replace(
        score,
        dice=_percent(metrics.dice(prediction, truth)),
        jaccard=_percent(metrics.jaccard(prediction, truth)),
    )
    distances = surface_distances(*_as_image(prediction, truth, drawn, spacing))
    if not (len(distances.to_truth) and len(distances.to_prediction)):
        return score  # a structure that fills all that is drawn has no surface there
    return replace(
        score,
        asd=metrics.asd(distances),
        assd=metrics.assd(distances),
        hd95=metrics.hd95(distances),
        nsd=_percent(metrics.nsd(distances, protocol.tolerance)),
    )


def _without_surface(score: CaseScore, protocol: Protocol) -> CaseScore:
    if protocol.empty == "zero":
        return replace(score, dice=0.0, jaccard=0.0, nsd=0.0, asd=0.0, assd=0.0, hd95=0.0)
    if score.absent:
        return score
    return replace(score, dice=0.0, jaccard=0.0, nsd=0.0)


def _as_image(
    prediction: Mask, truth: Mask, drawn: Mask | None, spacing: Sequence[float]
) -> tuple[Mask, Mask, Sequence[float], Mask | None]:
    """Take a volume of one slice as an image: as a volume, all its voxels would be surface."""
    if truth.ndim == 2 or 1 not in truth.shape:
        return prediction, truth, spacing, drawn
    thin = truth.shape.index(1)
    kept = [size for axis, size in enumerate(spacing) if axis != thin]
    shown = None if drawn is None else drawn.squeeze(thin)
    return prediction.squeeze(thin), truth.squeeze(thin), kept, shown


def _percent(fraction: float | None) -> float | None:
    """The metrics are fractions, the scores percentages."""
    return None if fraction is None else 100 * fraction
