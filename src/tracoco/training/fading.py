"""An earlier sign than absence: the pseudo-labels have less and less of a structure.

Seen in about a hundred runs on real scans. With crops that hold a fair part of a scan, every run
that ended above one without unlabelled scans kept at least 0.8 of the largest share which a
structure had once the networks had learnt for a hundred steps; those that lost more than a quarter
ended far below it. With very small crops runs of both kinds lost as much.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from tracoco.training.run_log import Record

WINDOW = 100
"""Steps whose mean is compared; so many at the start, when networks know nothing, are left out."""
FADED = 0.75


class FadingMonitor:
    """Compares the mean share of each structure over the last steps with the largest such mean."""

    def __init__(self, names: Sequence[str], history: Iterable[Record] = ()) -> None:
        """`names` has the classes in their order, background first."""
        self._names = list(names)[1:]
        self._skipped = 0
        self._recent = [deque[float](maxlen=WINDOW) for _ in self._names]
        self._largest = [0.0] * len(self._names)
        for record in history:
            self.observe(record.get("health", {}))

    def observe(self, health: Mapping[str, float]) -> dict[str, tuple[float, float]]:
        """Take in one step's figures; which structures fade: their mean share now, and at most."""
        if "share/0" not in health:
            return {}
        if self._skipped < WINDOW:
            self._skipped += 1
            return {}
        found = {}
        for index, (name, recent) in enumerate(zip(self._names, self._recent, strict=True)):
            recent.append(health[f"share/{index + 1}"])
            if len(recent) == WINDOW:
                mean = sum(recent) / WINDOW
                self._largest[index] = max(self._largest[index], mean)
                if mean < FADED * self._largest[index]:
                    found[name] = (mean, self._largest[index])
        return found
