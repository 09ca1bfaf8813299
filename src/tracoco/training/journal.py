"""Everything that is said about a run while it goes on: log, display, warnings."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType

from tracoco.training.health import CollapseMonitor
from tracoco.training.progress import Display
from tracoco.training.run_log import Record, RunLog, rewind_log


class Journal:
    """Takes in each step's record once: logs it, shows it, warns when the run goes astray."""

    def __init__(
        self, folder: Path, step: int, labelled_shares: Mapping[str, float], display: Display
    ) -> None:
        """`labelled_shares` has each class's share of the labelled voxels, background first."""
        history = rewind_log(folder / "log.jsonl", step)
        self._shares = labelled_shares
        self._monitor = CollapseMonitor(labelled_shares, history)
        self._absent: list[str] = history[-1].get("collapsed", []) if history else []
        self._log = RunLog(folder, step)
        self._display = display

    def write(self, record: Record) -> None:
        """Log and show one step."""
        absent = self._monitor.observe(record["health"])
        if absent:
            record = record | {"collapsed": absent}
        for line in self._news(absent):
            self._display.say(f"step {record['step']}: {line}")
        self._absent = absent
        self._log.write(record)
        self._display.show(record)

    def _news(self, absent: list[str]) -> Iterator[str]:
        """What has changed since the step before."""
        for name in absent:
            if name not in self._absent:
                yield (
                    f"'{name}' is all but absent from the pseudo-labels, and is "
                    f"{100 * self._shares[name]:.2g} % of the labelled scans: the unlabelled ones "
                    "teach that there is none. Let them count less, or later; `tracoco methods "
                    "NAME` has the settings for it"
                )
        for name in self._absent:
            if name not in absent:
                yield f"'{name}' is back in the pseudo-labels"

    def __enter__(self) -> "Journal":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._log.close()
