"""Health of the pseudo-labels: a run whose unlabelled crops teach "all background" says so."""

from collections.abc import Iterable, Mapping

from tracoco.training.run_log import Record

COLLAPSE_SHARE = 0.1
COLLAPSE_STEPS = 100


class CollapseMonitor:
    """Notices when the foreground has been all but absent from the pseudo-labels for long.

    Collapsed means: for 100 steps the foreground's share of the pseudo-labels was below a tenth
    of its share of the labelled scans.
    """

    def __init__(self, labelled_share: float, history: Iterable[Record] = ()) -> None:
        self._least = COLLAPSE_SHARE * labelled_share
        self._steps = 0
        for record in history:
            self.observe(record.get("health", {}))

    def observe(self, health: Mapping[str, float]) -> bool:
        """Take in one step's figures; true while the pseudo-labels are collapsed."""
        if "share/0" not in health:
            return False
        low = 1 - health["share/0"] < self._least
        self._steps = self._steps + 1 if low else 0
        return self._steps >= COLLAPSE_STEPS
