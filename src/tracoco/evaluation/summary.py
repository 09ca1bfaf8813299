"""Means of scores: over the classes of a case, then over cases, with the misses beside them."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from tracoco.evaluation.scores import CaseScore


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
