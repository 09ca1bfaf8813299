"""What a person sees of a run: a live line of figures on a terminal, plain lines elsewhere."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
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

from tracoco.console import say
from tracoco.training.run_log import Record

PLAIN_SECONDS = 15.0


class Display(Protocol):
    """Shows the steps of a run."""

    def show(self, record: Record) -> None:
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
    else:
        yield PlainDisplay(title, total, done)


class SilentDisplay:
    """Shows nothing: a process that does not lead, or a caller that wants quiet."""

    def show(self, record: Record) -> None:
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

    def show(self, record: Record) -> None:
        """Move the bar."""
        self.bar.update(self.task, completed=record["step"] + 1)
        rate = f"{self.bar.tasks[self.task].speed or 0:.1f} steps/s"
        self.bar.update(self.task, figures=f"{rate}  {describe(record)}")

    def say(self, line: str) -> None:
        """Print above the bar."""
        self.bar.console.print(line, markup=False, highlight=False)


@dataclass(slots=True)
class PlainDisplay:
    """A line now and then, for log files and schedulers."""

    title: str
    total: int
    done: int
    started: float = field(default_factory=time.monotonic)
    last: float = 0.0

    def show(self, record: Record) -> None:
        """Print a line if the last one is some seconds old or this step is the last."""
        now, step = time.monotonic(), record["step"] + 1
        scored = "validation" in record or "test" in record
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


def describe(record: Record) -> str:
    """The figures of one step in words."""
    terms = "  ".join(f"{name} {value:.3f}" for name, value in record["terms"].items())
    if "test" in record:
        return f"{terms}  test Dice {100 * record['test']['dice']:.1f}, which chooses best"
    validation = record.get("validation")
    return f"{terms}  validation Dice {100 * validation['dice']:.1f}" if validation else terms
