"""Scores of a case, one for each class, and their means: what counts, and what is never hidden."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from tracoco.errors import UserError, did_you_mean
from tracoco.evaluation import metrics
from tracoco.evaluation.metrics import Mask, surface_distances

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


@dataclass(frozen=True, slots=True)
class Summary:
    """One row of a table. Overlaps and the volume error in percent; None where nothing is defined.

    Each mean is over the cases in which the value is defined, and there over the classes in which
    it is. Distances say nothing about missed and spurious structures: read those counts with them.
    """

    cases: int
    dice: float | None
    dice_sd: float | None
    """Spread of the cases' Dice (n - 1); undefined for a single case."""
    jaccard: float | None
    asd: float | None
    assd: float | None
    hd95: float | None
    nsd: float | None
    volume_error: float | None
    """Without sign: a fifth too large in one case and too small in the next is 20, not 0."""
    missed: int
    spurious: int
    absent: int
    """Structures, one for each case and class."""


def summarise(scores: Sequence[CaseScore]) -> Summary:
    """The row of these scores, e.g. of all classes or of one."""
    dices = _case_means(scores, "dice")
    return Summary(
        cases=len({score.case for score in scores}),
        dice=_mean(dices, 100),
        dice_sd=100 * stdev(dices) if len(dices) > 1 else None,
        jaccard=_mean(_case_means(scores, "jaccard"), 100),
        asd=_mean(_case_means(scores, "asd")),
        assd=_mean(_case_means(scores, "assd")),
        hd95=_mean(_case_means(scores, "hd95")),
        nsd=_mean(_case_means(scores, "nsd"), 100),
        volume_error=_mean(_case_means(scores, "volume_error"), 100),
        missed=sum(score.missed for score in scores),
        spurious=sum(score.spurious for score in scores),
        absent=sum(score.absent for score in scores),
    )


def _case_means(scores: Sequence[CaseScore], metric: str) -> list[float]:
    """Mean magnitude over the classes of each case; only the volume error has a sign to lose."""
    by_case: dict[str, list[float]] = {}
    for score in scores:
        value: float | None = getattr(score, metric)
        if value is not None:
            by_case.setdefault(score.case, []).append(abs(value))
    return [fmean(values) for values in by_case.values()]


def _mean(values: Sequence[float], scale: float = 1.0) -> float | None:
    return scale * fmean(values) if values else None


PROTOCOLS = {"paper": Protocol(units="voxel", empty="zero")}
"""paper: what the tables of TraCoCo and of the works around it follow."""


def chosen_protocol(
    name: str | None = None,
    units: Units | None = None,
    empty: Empty | None = None,
    *,
    cct: bool = False,
) -> Protocol:
    """A protocol by name or by its parts; a part that contradicts the name is an error."""
    if name is None:
        return Protocol(units=units or "mm", empty=empty or "missed", cct=cct)
    if name not in PROTOCOLS:
        raise UserError(f"protocol '{name}' does not exist; {did_you_mean(name, PROTOCOLS)}")
    known = PROTOCOLS[name]
    for part, given, meant in (("units", units, known.units), ("empty", empty, known.empty)):
        if given not in {None, meant}:
            raise UserError(
                f"--protocol {name} means --{part} {meant}, but --{part} {given} is given too; "
                "leave one of them out"
            )
    return Protocol(units=known.units, empty=known.empty, cct=cct)
