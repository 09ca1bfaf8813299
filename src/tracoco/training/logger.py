"""Everything that is said about a run while it is trained: log, display, and warnings.

Warnings are about pseudo-labels that lose a structure. In runs that were made to fail, the class
fractions showed it first, within 50 steps, while the agreement of the two networks looked better
than ever: everything was background, or everything the same structure.

An earlier sign is that the pseudo-labels have less and less of a structure. Seen in about a hundred
runs on real scans: with crops that hold a fair part of a scan, every run that ended above one
without unlabelled scans kept at least 0.8 of the largest fraction which a structure had once the
networks had learnt for a hundred steps; those that lost more than a quarter ended far below it.
With very small crops runs of both kinds lost as much.
"""

import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from tracoco.console import NotebookBar, in_notebook, say
from tracoco.methods.health import PseudoLabelHealth
from tracoco.runs.log import RunLog, StepRecord, UnlabelledRecord, metrics, rewind_log
from tracoco.tracking.tracker import UNTRACKED, Tracking

WINDOW = 100
"""Steps whose mean is compared; so many at the start, when networks know nothing, are left out."""
FADED = 0.75


class FadingMonitor:
    """Compares each structure's mean fraction over the last steps with the largest such mean."""

    def __init__(self, names: Sequence[str], history: Iterable[StepRecord] = ()) -> None:
        """`names` has the classes in their order, background first."""
        self._names = list(names)[1:]
        self._skipped = 0
        self._recent = [deque[float](maxlen=WINDOW) for _ in self._names]
        self._largest = [0.0] * len(self._names)
        for record in history:
            self.observe(record.health)

    def observe(self, health: PseudoLabelHealth) -> dict[str, tuple[float, float]]:
        """Take in one step's figures; what fades: its mean fraction now, and at most."""
        if not health.class_fractions:
            return {}
        if self._skipped < WINDOW:
            self._skipped += 1
            return {}
        found = {}
        for index, (name, recent) in enumerate(zip(self._names, self._recent, strict=True)):
            recent.append(health.class_fractions[index + 1])
            if len(recent) == WINDOW:
                mean = sum(recent) / WINDOW
                self._largest[index] = max(self._largest[index], mean)
                if mean < FADED * self._largest[index]:
                    found[name] = (mean, self._largest[index])
        return found


COLLAPSE_FRACTION = 0.1
COLLAPSE_STEPS = 100


class CollapseMonitor:
    """Notices when a class has been all but absent from the pseudo-labels for long.

    Absent means: for 100 steps its fraction of the pseudo-labels was below a tenth of that of the
    labelled scans.
    """

    def __init__(
        self, labelled_fractions: Mapping[str, float], history: Iterable[StepRecord] = ()
    ) -> None:
        """`labelled_fractions` has the classes in their order, background first."""
        self._least = {
            name: COLLAPSE_FRACTION * fraction for name, fraction in labelled_fractions.items()
        }
        self._steps = dict.fromkeys(labelled_fractions, 0)
        for record in history:
            self.observe(record.health)

    def observe(self, health: PseudoLabelHealth) -> list[str]:
        """Take in one step's figures; which classes are absent now, by name."""
        found = health.class_fractions  # empty where a step has no pseudo-labels
        for (name, least), fraction in zip(self._least.items(), found, strict=bool(found)):
            self._steps[name] = self._steps[name] + 1 if fraction < least else 0
        return [name for name, steps in self._steps.items() if steps >= COLLAPSE_STEPS]


PLAIN_SECONDS = 15.0


class Display(Protocol):
    """Shows the steps of a run."""

    def show(self, record: StepRecord) -> None:
        """Show one step."""

    def say(self, line: str) -> None:
        """Show one line that stays."""


@contextmanager
def shown_progress(title: str, done: int, total: int, console: Console | None) -> Iterator[Display]:
    """A display for a run of `total` steps of which `done` are done; silent without a console."""
    if console is None:
        yield SilentDisplay()
    elif console.is_terminal:
        with LiveDisplay.progress(console) as progress:
            task = progress.add_task(title, total=total, completed=done, figures="")
            yield LiveDisplay(progress, task)
    elif in_notebook():
        yield NotebookDisplay(title, total, done)
    else:
        yield PlainDisplay(title, total, done)


class SilentDisplay:
    """Shows nothing: a process that does not lead, or a caller that wants quiet."""

    def show(self, record: StepRecord) -> None:
        """Show nothing."""

    def say(self, line: str) -> None:
        """Show nothing."""


@dataclass(frozen=True, slots=True)
class LiveDisplay:
    """A progress bar with the loss terms, steps a second and the time left."""

    bar: Progress
    task: TaskID

    @staticmethod
    def progress(console: Console) -> Progress:
        """The columns of the bar."""
        return Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[figures]}"),
            console=console,
        )

    def show(self, record: StepRecord) -> None:
        """Move the bar."""
        self.bar.update(self.task, completed=record.step + 1)
        rate = f"{self.bar.tasks[self.task].speed or 0:.1f} steps/s"
        self.bar.update(self.task, figures=f"{rate}  {describe(record)}")

    def say(self, line: str) -> None:
        """Print above the bar."""
        self.bar.console.print(line, markup=False, highlight=False)


class NotebookDisplay(NotebookBar):
    """A bar with the loss terms in a notebook."""

    def show(self, record: StepRecord) -> None:
        """Move the bar."""
        self.move(record.step + 1, describe(record))


@dataclass(slots=True)
class PlainDisplay:
    """A line now and then, for log files and schedulers."""

    title: str
    total: int
    done: int
    started: float = field(default_factory=time.monotonic)
    last: float = 0.0

    def show(self, record: StepRecord) -> None:
        """Print a line if the last one is some seconds old or this step is the last."""
        now, step = time.monotonic(), record.step + 1
        scored = record.validation_dice is not None or record.test_dice is not None
        if now - self.last < PLAIN_SECONDS and step < self.total and not scored:
            return
        self.last = now
        rate = (step - self.done) / max(now - self.started, 1e-9)
        left = timedelta(seconds=round((self.total - step) / max(rate, 1e-9)))
        self.say(
            f"{self.title}: {step} of {self.total} steps, {rate:.1f} steps/s, {left} left, "
            f"{describe(record)}"
        )

    def say(self, line: str) -> None:
        """Print a plain line."""
        say(line)


def describe(record: StepRecord) -> str:
    """The figures of one step in words."""
    terms = "  ".join(f"{name} {value:.3f}" for name, value in record.terms.items())
    if record.test_dice is not None:
        return f"{terms}  test Dice {100 * record.test_dice:.1f}, which chooses best"
    if record.validation_dice is not None:
        return f"{terms}  validation Dice {100 * record.validation_dice:.1f}"
    return terms


def _overflow(record: StepRecord) -> Iterator[str]:
    """A step that was skipped."""
    if record.skipped:
        yield f"overflow in fp16, the step is skipped: cases {', '.join(record.skipped)}"


class RunLogger:
    """Takes in each step's record once: logs it, shows it, warns when the run goes astray."""

    def __init__(
        self,
        folder: Path,
        step: int,
        labelled_fractions: Mapping[str, float],
        display: Display,
        *,
        advice: str,
        tracking: Tracking = UNTRACKED,
    ) -> None:
        """Go on with the log of a run.

        Args:
            folder: of the run.
            step: what the log has from here on is forgotten.
            labelled_fractions: each class's fraction of the labelled voxels, background first.
            display: where the run is shown.
            advice: what the method says would help, for the end of a warning.
            tracking: is given the figures of each step.
        """
        history = rewind_log(folder / "log.jsonl", step)
        self._shares, self._advice = labelled_fractions, advice
        self._monitor = CollapseMonitor(labelled_fractions, history)
        self._fading = FadingMonitor(list(labelled_fractions), history)
        self._absent = list(history[-1].collapsed) if history else []
        self._faded = {name for record in history for name in record.fading}
        self._restrained = history[-1].restrained if history else ()
        self._counted = False  # whether unlabelled crops count, since the last structure was lost
        for record in history:
            self._counted |= record.unlabelled is not None and record.unlabelled.weight > 0
            self._counted &= not record.lost
        self._doubted = any(each.unlabelled and each.unlabelled.doubted for each in history)
        self._log = RunLog(folder)
        self._display, self._tracking = display, tracking

    def write(self, record: StepRecord) -> None:
        """Log and show one step."""
        absent = self._monitor.observe(record.health)
        fading = self._fading.observe(record.health)
        record = replace(record, collapsed=tuple(absent), fading=tuple(fading))
        if record.unlabelled:
            fades = self._weight_news(record, record.unlabelled)
        else:
            fades = self._fading_news(fading)
        for line in (*_overflow(record), *fades, *self._news(absent)):
            self._display.say(f"step {record.step}: {line}")
        self._absent, self._restrained = absent, record.restrained
        self._log.write(record)
        self._tracking.metrics(metrics(record), record.step)
        self._display.show(record)

    def _weight_news(self, record: StepRecord, now: UnlabelledRecord) -> Iterator[str]:
        """What has changed in how much unlabelled crops count."""
        # Disagreement is told once: it comes and goes as the weight rises.
        if now.doubted and now.agreement is not None and not self._doubted:
            self._doubted = True
            yield (
                "the two networks disagree on unlabelled crops (Dice "
                f"{100 * now.agreement:.0f}): these count only as far as the networks agree"
            )
        if now.weight and not self._counted:
            self._counted = True
            yield (
                f"unlabelled crops count from here on: the labelled ones are known (Dice "
                f"{100 * now.known:.0f}), and labels alone teach little more"
            )
        faded, known = record.restrained, self._restrained
        if faded and not known:
            listed = ", ".join(f"'{name}'" for name in faded)
            yield (
                f"the pseudo-labels have less and less of {listed}: unlabelled crops count less "
                "until that has recovered"
            )
        lost = ", ".join(f"'{name}'" for name in record.lost)
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
                    f"unlabelled scans; compare with `--method supervised`, or {self._advice}"
                )

    def _news(self, absent: list[str]) -> Iterator[str]:
        """What has changed since the step before."""
        for name in absent:
            if name not in self._absent:
                yield (
                    f"'{name}' is all but absent from the pseudo-labels, and is "
                    f"{100 * self._shares[name]:.2g} % of the labelled scans: the unlabelled ones "
                    f"teach that there is none. To help, {self._advice}"
                )
        for name in self._absent:
            if name not in absent:
                yield f"'{name}' is back in the pseudo-labels"

    def __enter__(self) -> "RunLogger":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._log.close()
