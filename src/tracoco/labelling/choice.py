"""Which unlabelled scans to label next: uncertain ones, and no two alike.

1. Uncertainty. For each scan, the fraction of the other scans that have a lower disagreement, and
   the fraction that have a lower entropy; uncertainty is the mean of the two. As fractions of
   scans the two can be added, whatever their sizes are. A method with one network has no
   disagreement: there it is the fraction by entropy alone.
2. Candidates are the most uncertain scans: `PER_PICK` for each scan that is asked for, but at most
   half of all scans, and never fewer than are asked for.
3. Novelty. Each feature is divided by its standard deviation over all scans; the distance of two
   scans is the root mean square of the differences. One after the other, the candidate is chosen
   that is farthest from its nearest scan among those that are labelled or already chosen
   (farthest-point selection). Once one of several near-copies is chosen, the others are close to
   it, and stay behind.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from tracoco.inference.prediction import Uncertainty
from tracoco.text import number

PER_PICK = 4
"""Candidates for each scan that is asked for."""
Array = NDArray[np.float64]
Scores = Mapping[str, Uncertainty]
"""What was measured of each scan, by case."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A scan to label, and the figures that speak for it."""

    case: str
    disagreement: float | None
    """1 - Dice of the two networks, 0 to 1; None for a method with one."""
    disagreement_above: float | None
    """Fraction of the other unlabelled scans whose disagreement is lower."""
    entropy: float
    """0 to 1."""
    entropy_above: float
    """Fraction of the other unlabelled scans whose entropy is lower."""
    uncertainty: float
    """Mean of the fractions."""
    novelty: float
    """Distance to the nearest scan that is labelled or was chosen before."""
    nearest: str
    """That scan."""
    novelty_above: float
    """Fraction of the other unlabelled scans that are nearer to such a scan."""
    found: bool
    """Whether the model finds any structure in it."""

    @property
    def why(self) -> str:
        """The reasons in words and figures."""
        parts = []
        if self.disagreement is not None and self.disagreement_above is not None:
            parts.append(
                f"the two networks differ by {number(100 * self.disagreement)} % "
                f"(1 - Dice; more than in {100 * self.disagreement_above:.0f} % of the scans)"
            )
        parts.append(
            f"entropy {number(self.entropy, 2)} of 1 (above {100 * self.entropy_above:.0f} %)"
        )
        parts.append(
            f"{number(self.novelty, 2)} from its nearest labelled or chosen scan {self.nearest} "
            f"(farther than {100 * self.novelty_above:.0f} %)"
        )
        parts += [] if self.found else ["the model finds no structure in it"]
        return "; ".join(parts)


def fractions_below(values: Sequence[float]) -> Array:
    """For each value the fraction of the others that are lower; equal ones count half."""
    array = np.asarray(values, dtype=np.float64)
    lower = (array[None] < array[:, None]).sum(axis=1)
    equal = (array[None] == array[:, None]).sum(axis=1) - 1
    fractions: Array = (lower + equal / 2) / max(1, len(array) - 1)
    return fractions


def candidate_count(scans: int, wanted: int) -> int:
    """How many of the most uncertain scans are compared for their novelty."""
    return max(wanted, min(PER_PICK * wanted, ceil(scans / 2)))


def standardised(vectors: Array) -> Array:
    """Features [scans, F] divided by their spread; without those that are alike in all scans.

    The Euclidean distance of two rows is the root mean square of their differences.
    """
    spread = vectors.std(axis=0)
    varying = spread > 1e-6 * max(1e-6, float(np.abs(vectors).max(initial=0)))
    kept: Array = vectors[:, varying] / spread[varying] / np.sqrt(max(1, int(varying.sum())))
    return kept


def distances(rows: Array, others: Array) -> Array:
    """Euclidean distance of each row to each of the others, [rows, others]."""
    # One column of the others at a time: memory grows with the scans and not with their features.
    columns = [np.linalg.norm(rows - other, axis=1) for other in others]
    return np.stack(columns, axis=1) if columns else np.zeros((len(rows), 0))


def choose(unlabelled: Scores, labelled: Scores, count: int) -> list[Choice]:
    """The scans to label next, the first of them first; fewer if there are no more.

    Args:
        unlabelled: scans to choose from.
        labelled: scans that a new one should not be like.
        count: how many are wanted.
    """
    names, known = list(unlabelled), list(labelled)
    scans = [unlabelled[name] for name in names]
    disagreements = [scan.disagreement for scan in scans if scan.disagreement is not None]
    by_entropy = fractions_below([scan.entropy for scan in scans])
    compared = len(disagreements) == len(scans)
    by_disagreement = fractions_below(disagreements) if compared else None
    uncertain = by_entropy if by_disagreement is None else (by_entropy + by_disagreement) / 2
    most = np.argsort(-uncertain, kind="stable")[: candidate_count(len(scans), count)].tolist()
    features = standardised(np.stack([s.vector for s in (*scans, *labelled.values())]))
    rows = features[: len(scans)]
    gaps = distances(rows, features[len(scans) :])
    found: list[Choice] = []
    while most and len(found) < count:
        near = gaps.min(axis=1) if known else np.full(len(scans), np.inf)
        best = max(most, key=lambda index: (near[index], uncertain[index]))
        scan, below = scans[best], None if by_disagreement is None else by_disagreement[best]
        found.append(
            Choice(
                case=names[best],
                disagreement=scan.disagreement,
                disagreement_above=None if below is None else float(below),
                entropy=scan.entropy,
                entropy_above=float(by_entropy[best]),
                uncertainty=float(uncertain[best]),
                novelty=float(near[best]),
                nearest=known[int(gaps[best].argmin())] if known else "",
                novelty_above=float(fractions_below(near.tolist())[best]),
                found=scan.found,
            )
        )
        most.remove(best)
        known.append(names[best])
        gaps = np.concatenate([gaps, distances(rows, rows[best : best + 1])], axis=1)
    return found
