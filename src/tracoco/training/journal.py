"""Everything that is said about a run while it goes on: log, display, warnings."""

from pathlib import Path
from types import TracebackType

from tracoco.training.health import CollapseMonitor
from tracoco.training.progress import Display
from tracoco.training.run_log import Record, RunLog, rewind_log


class Journal:
    """Takes in each step's record once: logs it, shows it, warns when the run goes astray."""

    def __init__(self, folder: Path, step: int, labelled_share: float, display: Display) -> None:
        history = rewind_log(folder / "log.jsonl", step)
        self._monitor = CollapseMonitor(labelled_share, history)
        self._collapsed = bool(history and history[-1].get("collapsed"))
        self._log = RunLog(folder, step)
        self._display = display

    def write(self, record: Record) -> None:
        """Log and show one step."""
        collapsed = self._monitor.observe(record["health"])
        if collapsed:
            record = record | {"collapsed": True}
        if collapsed != self._collapsed:
            state = "have collapsed to background" if collapsed else "show foreground again"
            self._display.say(f"step {record['step']}: the pseudo-labels {state}")
        self._collapsed = collapsed
        self._log.write(record)
        self._display.show(record)

    def __enter__(self) -> "Journal":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._log.close()
