"""Everything that is said about a run while it goes on: log, display, warnings."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType

from tracoco.training.fading import FadingMonitor
from tracoco.training.health import CollapseMonitor
from tracoco.training.progress import Display
from tracoco.training.run_log import Record, RunLog, rewind_log


def _overflow(record: Record) -> Iterator[str]:
    """A step that was skipped."""
    if "skipped" in record:
        yield f"overflow in fp16, the step is skipped: cases {', '.join(record['skipped'])}"


class Journal:
    """Takes in each step's record once: logs it, shows it, warns when the run goes astray."""

    def __init__(
        self,
        folder: Path,
        step: int,
        labelled_shares: Mapping[str, float],
        display: Display,
        *,
        remedy: str,
    ) -> None:
        """Go on with the log of a run.

        Args:
            folder: of the run.
            step: what the log has from here on is forgotten.
            labelled_shares: each class's share of the labelled voxels, background first.
            display: where the run is shown.
            remedy: what the method says would help, for the end of a warning.
        """
        history = rewind_log(folder / "log.jsonl", step)
        self._shares, self._remedy = labelled_shares, remedy
        self._monitor = CollapseMonitor(labelled_shares, history)
        self._fading = FadingMonitor(list(labelled_shares), history)
        self._absent: list[str] = history[-1].get("collapsed", []) if history else []
        self._faded = {name for record in history for name in record.get("fading", ())}
        self._before: Record = history[-1] if history else {}
        self._counted = False  # whether unlabelled crops count, since the last structure was lost
        for record in history:
            self._counted |= record.get("unlabelled", {}).get("weight", 0.0) > 0
            self._counted &= not record.get("lost")
        self._doubted = any(record.get("unlabelled", {}).get("doubted") for record in history)
        self._log = RunLog(folder, step)
        self._display = display

    def write(self, record: Record) -> None:
        """Log and show one step."""
        absent = self._monitor.observe(record["health"])
        fading = self._fading.observe(record["health"])
        names = list(self._shares)
        restrained, lost = (
            [names[index] for index in record.pop(kind, ())] for kind in ("restrained", "lost")
        )
        for kind, found in (
            ("collapsed", absent),
            ("fading", list(fading)),
            ("restrained", restrained),
            ("lost", lost),
        ):
            record = record | ({kind: found} if found else {})
        fades = self._weight_news(record) if "unlabelled" in record else self._fading_news(fading)
        for line in (*_overflow(record), *fades, *self._news(absent)):
            self._display.say(f"step {record['step']}: {line}")
        self._absent, self._before = absent, record
        self._log.write(record)
        self._display.show(record)

    def _weight_news(self, record: Record) -> Iterator[str]:
        """What has changed in how much unlabelled crops count."""
        now = record["unlabelled"]
        if now.get("doubted") and not self._doubted:  # once: it comes and goes as the weight rises
            self._doubted = True
            yield (
                "the two networks disagree on unlabelled crops (Dice "
                f"{100 * now['agreement']:.0f}): these count only as far as the networks agree"
            )
        if now["weight"] and not self._counted:
            self._counted = True
            yield (
                f"unlabelled crops count from here on: the labelled ones are known (Dice "
                f"{100 * now['known']:.0f})"
            )
        faded = record.get("restrained", [])
        known = self._before.get("restrained", [])
        if faded and not known:
            listed = ", ".join(f"'{name}'" for name in faded)
            yield (
                f"the pseudo-labels have less and less of {listed}: unlabelled crops count less "
                "until that has recovered"
            )
        lost = ", ".join(f"'{name}'" for name in record.get("lost", []))
        if lost:
            self._counted = False
            yield (
                f"the pseudo-labels have lost {lost}: the run goes back to its weights from before "
                "unlabelled crops counted, and these will count half as much"
            )
        elif known and not faded:
            yield "the pseudo-labels have recovered: unlabelled crops count more again"

    def _fading_news(self, fading: Mapping[str, tuple[float, float]]) -> Iterator[str]:
        """What fades for the first time in this run."""
        for name, (now, largest) in fading.items():
            if name not in self._faded:
                self._faded.add(name)
                yield (
                    f"the pseudo-labels have less and less of '{name}', {100 * now:.2g} % where "
                    f"they had {100 * largest:.2g} %. Such runs often end no better than without "
                    f"unlabelled scans; compare with `--method supervised`, or {self._remedy}"
                )

    def _news(self, absent: list[str]) -> Iterator[str]:
        """What has changed since the step before."""
        for name in absent:
            if name not in self._absent:
                yield (
                    f"'{name}' is all but absent from the pseudo-labels, and is "
                    f"{100 * self._shares[name]:.2g} % of the labelled scans: the unlabelled ones "
                    f"teach that there is none. To help, {self._remedy}"
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
