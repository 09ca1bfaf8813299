"""Health of the pseudo-labels: a run whose unlabelled crops teach that a class is absent says so.

In runs that were made to fail, the shares of the classes showed it first, within 50 steps, while
the agreement of the two networks looked better than ever: everything was background, or everything
the same structure.
"""

from collections.abc import Iterable, Mapping

from tracoco.training.run_log import Record

COLLAPSE_SHARE = 0.1
COLLAPSE_STEPS = 100


class CollapseMonitor:
    """Notices when a class has been all but absent from the pseudo-labels for long.

    Absent means: for 100 steps its share of the pseudo-labels was below a tenth of its share of
    the labelled scans.
    """

    def __init__(
        self, labelled_shares: Mapping[str, float], history: Iterable[Record] = ()
    ) -> None:
        """`labelled_shares` has the classes in their order, background first."""
        self._least = {name: COLLAPSE_SHARE * share for name, share in labelled_shares.items()}
        self._steps = dict.fromkeys(labelled_shares, 0)
        for record in history:
            self.observe(record.get("health", {}))

    def observe(self, health: Mapping[str, float]) -> list[str]:
        """Take in one step's figures; which classes are absent now, by name."""
        for index, (name, least) in enumerate(self._least.items()):
            share = health.get(f"share/{index}")
            if share is not None:
                self._steps[name] = self._steps[name] + 1 if share < least else 0
        return [name for name, steps in self._steps.items() if steps >= COLLAPSE_STEPS]
