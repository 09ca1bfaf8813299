"""Context sensitivity: how much an answer depends on what surrounds the voxels that it is about.

Two crops of one scan, a little apart, show the same voxels in their overlap and other
surroundings. Whoever has learnt the organ and not its surroundings gives the same answer there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from tracoco.data.places import has_room
from tracoco.evaluation.context_pairs import Volume, answers, compare, draw_pair
from tracoco.geometry import Index
from tracoco.inference.sliding_window import Predict


@dataclass(frozen=True, slots=True)
class ContextScore:
    """Means over the pairs of one scan. Shares in percent, divergence in nats; None is undefined.

    A scan that is no larger than the crop has no second place to crop at: 0 pairs, and no figures.
    """

    scan: str
    pairs: int
    empty_pairs: int
    """Pairs in which neither answer has foreground; they have no disagreement to count."""
    disagreement: float | None = None
    divergence: float | None = None
    differing: float | None = None


@dataclass(frozen=True, slots=True)
class ContextSummary:
    """Means over scans, and their spreads (n - 1); None where there is nothing to take them of."""

    scans: int
    scans_without_room: int
    pairs: int
    empty_pairs: int
    disagreement: float | None
    disagreement_sd: float | None
    divergence: float | None
    divergence_sd: float | None
    differing: float | None
    differing_sd: float | None


def context_sensitivity(
    predict: Predict, volumes: Mapping[str, Volume], crop: Index, *, shifts: int, seed: int = 0
) -> list[ContextScore]:
    """Score each volume; its crops depend on its name and the seed, not on the other volumes.

    Args:
        predict: any function from crops to probabilities, e.g. `Method.predict`; crops one slice
            thick reach it as 2D crops.
        volumes: scans as prepared for the network, [C, X, Y, Z] by name.
        crop: size of a crop, usually that of the training.
        shifts: pairs of crops of each volume.
        seed: another seed draws other pairs.
    """
    return [
        score_volume(predict, name, volume, crop, shifts=shifts, seed=seed)
        for name, volume in volumes.items()
    ]


def score_volume(
    predict: Predict, scan: str, volume: Volume, crop: Index, *, shifts: int, seed: int = 0
) -> ContextScore:
    """Draw pairs of crops of one volume, predict them, compare the answers in their overlaps."""
    if not has_room(volume.shape[1:], crop):
        return ContextScore(scan, pairs=0, empty_pairs=0)
    pairs = [draw_pair(scan, volume.shape[1:], crop, seed, index) for index in range(shifts)]
    scores = [compare(*answers(predict, volume, *pair)) for pair in pairs]
    defined = [score.disagreement for score in scores if score.disagreement is not None]
    return ContextScore(
        scan,
        pairs=len(scores),
        empty_pairs=len(scores) - len(defined),
        disagreement=100 * fmean(defined) if defined else None,
        divergence=fmean(score.divergence for score in scores),
        differing=100 * fmean(score.differing for score in scores),
    )


def summarise_context(scores: Sequence[ContextScore]) -> ContextSummary:
    """One row for all scans; a scan counts once, however many pairs it has."""
    return ContextSummary(
        scans=len(scores),
        scans_without_room=sum(score.pairs == 0 for score in scores),
        pairs=sum(score.pairs for score in scores),
        empty_pairs=sum(score.empty_pairs for score in scores),
        **_mean_and_spread(scores, "disagreement"),
        **_mean_and_spread(scores, "divergence"),
        **_mean_and_spread(scores, "differing"),
    )


def _mean_and_spread(scores: Sequence[ContextScore], figure: str) -> dict[str, float | None]:
    values = [value for score in scores if (value := getattr(score, figure)) is not None]
    return {
        figure: fmean(values) if values else None,
        f"{figure}_sd": stdev(values) if len(values) > 1 else None,
    }
