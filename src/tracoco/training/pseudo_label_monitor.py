"""How much unlabelled crops count, by what the networks know and by what their pseudo-labels show.

A method's own schedule rises with the steps, whether or not the networks have learnt anything by
then. Pseudo-labels of networks that know little are mostly background, and teach just that. So
unlabelled crops begin to count once the labelled ones are known, and labels alone teach little
more: until then a step is cheap, since what unlabelled crops would teach need not be computed. They
count by what two networks agree on: where each finds the structure somewhere else, at least one is
wrong. Networks that have taught each other agree more, right or wrong, so what they agreed on
before is the most that unlabelled crops ever count. They count less while a structure fades from
the pseudo-labels, and while the networks forget what they knew of the labelled crops. Networks that
have lost a structure do not find it again by labels alone: they tell labelled from unlabelled crops
by then. So the run goes back to its weights from before unlabelled crops counted, which then count
half as much.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from tracoco.methods.health import PseudoLabelHealth
from tracoco.runs.log import UnlabelledRecord

CHECK_EVERY = 10
"""Steps from one decision to the next."""
WINDOW = 10
"""Decisions whose Dice is averaged: a hundred steps."""
EARLIEST = 2 * WINDOW * CHECK_EVERY
"""Steps that a run takes at least before unlabelled crops may count: two windows are compared."""
FRACTION_WINDOW = 3
"""Decisions whose class fractions are averaged. In a run that failed, a structure was gone from the
pseudo-labels within fifty steps."""
KNOWN_DICE = 0.7
"""Mean Dice of the structures on labelled crops from which unlabelled ones may begin to count."""
SETTLED = 0.01
"""They do once that Dice rises by less than this from one window to the next."""
FADED = 0.75
"""A class fades when the pseudo-labels have less than this part of the most that they had, or of
its fraction of the labelled scans, whichever is less: what early networks mark too much of must not
count. Of about a hundred runs on real scans, those that lost more ended below supervised learning.
"""
LOST = 0.4
"""A class is lost below this part of the same."""
FORGOTTEN = 0.02
"""Unlabelled crops count less while the Dice on labelled crops is lower by more than this than when
they began to count: what they teach contradicts the labels. Of 23 runs, those in which they helped
lost 0.013 at most, and those in which they did harm 0.033 to 0.061, but for one on a pancreas
(docs/explanation/recipe.md)."""
ABSENT = 0.25
"""Before unlabelled crops begin to count, the pseudo-labels must have at least this part of each
class's fraction of the labelled scans."""
DOUBTED, TRUSTED = 0.6, 0.9
"""Dice of two networks' pseudo-labels, for the structure that they agree least on: up to the first
they count nothing, from the second on in full, and in proportion in between."""
AGREED = 0.75
"""The same Dice from which they may begin to count."""
RISE, FALL = 0.1, 0.5
"""What is added to the weight at a decision without a fading class, and what it is multiplied by
at one with some, or while labelled crops are forgotten."""


class UnlabelledWeight:
    """A factor from 0 to 1 for every loss term that does not come from labels.

    All of its state is plain numbers, which a checkpoint keeps.
    """

    def __init__(self, labelled_fractions: Sequence[float]) -> None:
        """`labelled_fractions` is each class's fraction of the labelled scans, background first."""
        self._labelled_fractions = list(labelled_fractions)
        self._dice = deque[list[float]](maxlen=2 * WINDOW)
        self._figures = deque[list[float]](maxlen=FRACTION_WINDOW)
        self._largest = [0.0] * len(self._labelled_fractions)
        self._seen: list[float] = []
        self.value = 0.0
        self.limit = 1.0
        """Largest value; half as large each time that a class was lost."""
        self.trusted = 1.0
        """Part of the limit that the agreement allowed when unlabelled crops began to count."""
        self.known_before = 0.0
        """Dice on labelled crops when unlabelled ones began to count."""
        self.forgotten = False
        """Whether it is less by now, so that unlabelled crops count less."""
        self.began: int | None = None
        """The step at which unlabelled crops began to count; None if they do not yet."""
        self.supervised_until: int | None = None
        """The last such step, also while they must begin anew: its weights are the ones to go back
        to."""
        self.doubted = False
        """Whether the value is as small as it is because two predictions disagree."""
        self.fading: list[int] = []
        """Classes that fade at the moment."""
        self.lost: list[int] = []
        """Classes that were lost at the last decision, so that unlabelled crops must begin anew."""

    def record(self) -> UnlabelledRecord:
        """What a step's log says of it."""
        return UnlabelledRecord(
            self.value, self.known, self.agreement, self.doubted, self.forgotten
        )

    @staticmethod
    def due(step: int) -> bool:
        """Whether the weight is decided on after this step, counted from 0."""
        return (step + 1) % CHECK_EVERY == 0

    def see(self, health: PseudoLabelHealth) -> None:
        """Take in what one step's pseudo-labels are like, if the method tells it."""
        if not health.class_fractions:
            return
        classes = len(self._labelled_fractions)
        pairs = list(zip(health.common, health.marked, strict=True))[: max(0, classes - 1)]
        two = [value for pair in pairs for value in pair]
        figures = [*health.class_fractions[:classes], *two, 1.0]
        before = self._seen or [0.0] * len(figures)
        self._seen = [a + b for a, b in zip(before, figures, strict=True)]

    def mean_figures(self) -> list[float]:
        """Means since the last decision, empty if nothing was seen.

        The fraction of each class in the pseudo-labels. Then, where the method compares two
        predictions, for each structure what both mark, and the mean of what each of them marks.
        """
        *sums, steps = self._seen or [0.0]
        return [total / steps for total in sums]

    @property
    def known(self) -> float:
        """Mean Dice of the structures on the labelled crops of the last decisions."""
        return _mean_dice(list(self._dice)[-WINDOW:])

    @property
    def _settled(self) -> bool:
        """Whether labelled crops are known, and hardly better than one window before."""
        if len(self._dice) < 2 * WINDOW or self.known < KNOWN_DICE:
            return False
        return self.known - _mean_dice(list(self._dice)[:WINDOW]) < SETTLED

    @property
    def agreement(self) -> float | None:
        """Dice of two predictions for the structure that they agree least on; None without two."""
        two = self._recent()[len(self._labelled_fractions) :]
        triples = zip(two[::2], two[1::2], self._labelled_fractions[1:], strict=bool(two))
        # The fractions judge a structure that is hardly marked: a stray voxel says nothing.
        found = [
            common / marked
            for common, marked, labelled in triples
            if labelled and marked > ABSENT * labelled
        ]
        return min(found) if found else None

    @property
    def _trust(self) -> float:
        """Part of the weight that the agreement allows."""
        dice = self.agreement
        if dice is None:
            return 1.0
        return min(1.0, max(0.0, (dice - DOUBTED) / (TRUSTED - DOUBTED)))

    @property
    def _agreed(self) -> bool:
        """Whether two predictions agree enough to begin, or there are no two."""
        return self.agreement is None or self.agreement >= AGREED

    def decide(self, step: int, overlaps: Sequence[float], figures: Sequence[float]) -> None:
        """Take in what the last steps showed, and set the weight.

        Args:
            step: that has just been taken, counted from 0.
            overlaps: of each structure, voxels of prediction and label in common, and voxels of
                both together, one after the other.
            figures: `mean_figures` of all processes; empty for methods without pseudo-labels.
        """
        self._dice.append(list(overlaps))
        self._seen, self.lost = [], []
        if figures:
            self._figures.append(list(figures))
        if self.began is None:
            if self._settled and self._agreed and self._all_present():
                self.began = self.supervised_until = step + 1
                self.trusted, self.known_before = self._trust, self.known
            return
        self.fading, self.lost = self._below(FADED), self._below(LOST)
        self.forgotten = self.known < self.known_before - FORGOTTEN
        falls = self.fading or self.forgotten
        wanted = self.value * FALL if falls else min(self.limit, self.value + RISE)
        allowed = self.limit * min(self.trusted, self._trust)
        self.value, self.doubted = min(wanted, allowed), allowed < wanted
        if self.lost:
            self._begin_anew()

    def _recent(self) -> list[float]:
        """The figures of the pseudo-labels, as `mean_figures` has them, over some decisions."""
        return [sum(column) / len(self._figures) for column in zip(*self._figures, strict=True)]

    def _all_present(self) -> bool:
        """Whether each structure is in the pseudo-labels."""
        pairs = zip(self._recent(), self._labelled_fractions, strict=False)
        return all(fraction >= ABSENT * labelled for fraction, labelled in pairs)

    def _below(self, part: float) -> list[int]:
        """Classes of which the pseudo-labels have less than a part of what is to be expected."""
        found = []
        for index, fraction in enumerate(self._recent()[: len(self._labelled_fractions)]):
            self._largest[index] = max(self._largest[index], fraction)
            expected = min(self._largest[index], self._labelled_fractions[index])
            if fraction < part * expected:
                found.append(index)
        return found

    def _begin_anew(self) -> None:
        """Wait until labelled crops are known again, and let unlabelled ones count less then."""
        self.value, self.began, self.fading = 0.0, None, []
        self.doubted = self.forgotten = False
        self.limit /= 2
        self._dice.clear()
        self._figures.clear()

    def state_dict(self) -> dict[str, Any]:
        """Plain values for a checkpoint."""
        return {
            "dice": list(self._dice),
            "figures": list(self._figures),
            "largest": list(self._largest),
            "seen": list(self._seen),
            "value": self.value,
            "limit": self.limit,
            "trusted": self.trusted,
            "known_before": self.known_before,
            "forgotten": self.forgotten,
            "began": self.began,
            "supervised_until": self.supervised_until,
            "fading": list(self.fading),
            "doubted": self.doubted,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a checkpoint."""
        self._dice = deque(state["dice"], maxlen=2 * WINDOW)
        self._figures = deque(state["figures"], maxlen=FRACTION_WINDOW)
        self._largest, self._seen = list(state["largest"]), list(state["seen"])
        self.value, self.limit, self.began = state["value"], state["limit"], state["began"]
        self.trusted = state.get("trusted", 1.0)  # older checkpoints have none of these three
        self.known_before = state.get("known_before", 0.0)
        self.forgotten = state.get("forgotten", False)
        self.supervised_until = state["supervised_until"]
        self.fading, self.doubted = list(state["fading"]), state["doubted"]


def _mean_dice(overlaps: Sequence[Sequence[float]]) -> float:
    """Mean Dice of the structures, each over all crops of some decisions."""
    sums = [sum(column) for column in zip(*overlaps, strict=True)]
    pairs = zip(sums[::2], sums[1::2], strict=True)
    found = [2 * common / both for common, both in pairs if both > 0]
    return sum(found) / len(found) if found else 0.0


@torch.no_grad()
def structure_overlaps(probability: Tensor, labels: Tensor, valid: Tensor) -> list[float]:
    """Of each structure, voxels that prediction and label share, and voxels of both together.

    Args:
        probability: of each class, [B, C, ...].
        labels: class of each voxel, [B, ...].
        valid: false where a crop reaches beyond its scan, [B, ...].
    """
    predicted, figures = probability.argmax(dim=1), list[float]()
    for index in range(1, probability.shape[1]):
        here, there = (predicted == index) & valid, (labels == index) & valid
        figures += [float((here & there).sum()), float(here.sum() + there.sum())]
    return figures
