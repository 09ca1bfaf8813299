"""Speaking to a person: progress on standard error or in a notebook, results on standard output."""

import itertools
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from importlib import import_module
from typing import IO, Any, TextIO, cast

from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.segment import Segment

from tracoco.text import duration, printable

QUIET_SECONDS = 2.0
UPDATE_SECONDS = 0.2
WIDE = 120


class PlainConsole(Console):
    """A console whose texts are shown as they are: no markup, and no control characters."""

    def __init__(self, *, stderr: bool = False, width: int | None = None) -> None:
        super().__init__(stderr=stderr, width=width, markup=False)

    @property
    def file(self) -> IO[str]:
        """The stream itself: what the console sends to a terminal consists of escapes."""
        stream = super().file
        return stream.stream if isinstance(stream, PlainStream) else stream

    @file.setter
    def file(self, new_file: IO[str]) -> None:
        self._file = new_file

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterator[Segment]:
        """What is drawn, with texts made printable."""
        for segment in super().render(renderable, options):
            text = segment.text if segment.control else printable(segment.text)
            yield Segment(text, segment.style, segment.control)


class PlainStream:
    """A stream of text whose control characters are shown as escapes.

    The command line sends all that it prints through such streams: results, errors, warnings, and
    the logs of libraries.
    """

    def __init__(self, stream: IO[str]) -> None:
        self.stream = stream

    def write(self, text: str, /) -> int:
        """Write the text, made printable."""
        self.stream.write(printable(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        """All but writing is the stream's."""
        return getattr(self.stream, name)


@contextmanager
def plain_output() -> Iterator[None]:
    """Print control characters as escapes, wherever they come from."""
    streams = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast("TextIO", PlainStream(stream)) for stream in streams)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = streams


def progress_console() -> Console:
    """Where progress goes."""
    return PlainConsole(stderr=True)


def say(line: str) -> None:
    """Print one plain line where progress goes."""
    print(printable(line), file=sys.stderr, flush=True)  # noqa: T201 - it is what this module is for


def print_table(table: RenderableType) -> None:
    """Print a result for a person; in a pipe or file wide enough for every number."""
    console = PlainConsole()
    width = console.width if console.is_terminal else max(console.width, WIDE)
    PlainConsole(width=width).print(table)


def print_json(value: Any) -> None:
    """Print a result for a program: one object and nothing else."""
    print(json.dumps(value, indent=2))  # noqa: T201 - it is what this module is for


@contextmanager
def counted(title: str, total: int, console: Console | None) -> Iterator[Callable[[str], None]]:
    """Give a function to call after each of `total` items: a bar with the time left.

    Outside terminals and notebooks a line now and then, and none at all for what is done within
    two seconds.
    """
    if console is None:
        yield lambda _: None
    elif console.is_terminal:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        with Progress(*columns, TimeRemainingColumn(), console=console) as bar:
            task = bar.add_task(title, total=total)
            yield lambda _: bar.advance(task)
    elif in_notebook():
        done, bar_below = itertools.count(1), NotebookBar(title, total)
        yield lambda _: bar_below.move(next(done))
    else:
        yield _plain_counter(title, total)


def _plain_counter(title: str, total: int) -> Callable[[str], None]:
    began = last = time.monotonic()
    done = 0

    def count(item: str) -> None:
        nonlocal done, last
        done += 1
        now = time.monotonic()
        if now - last >= QUIET_SECONDS:
            last = now
            left = (now - began) / done * (total - done)
            say(f"{title}: {done} of {total} ({item}), about {left:.0f} s left")

    return count


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook; IPython is never imported to find out."""
    running = sys.modules.get("IPython")
    shell = running.get_ipython() if running else None
    return hasattr(shell, "kernel")  # a terminal's IPython has none


class NotebookBar:
    """A progress bar, and below it the lines that stay."""

    def __init__(self, title: str, total: int, done: int = 0) -> None:
        self._title, self._total = title, total
        self._first = self._done = done
        self._figures, self._lines = "", list[str]()
        self._began = self._shown = time.monotonic()
        self._ipython: Any = import_module("IPython.display")
        self._handle = self._ipython.display(self._output(), display_id=True)

    def move(self, done: int, figures: str = "") -> None:
        """Show how much is done: a few times a second, and always the end."""
        self._done, self._figures = done, figures
        if time.monotonic() - self._shown >= UPDATE_SECONDS or done >= self._total:
            self._update()

    def say(self, line: str) -> None:
        """Add a line that stays."""
        self._lines.append(line)
        self._update()

    def _update(self) -> None:
        self._shown = time.monotonic()
        self._handle.update(self._output())

    def _output(self) -> Any:
        bar = f"<progress value='{self._done}' max='{max(1, self._total)}'></progress>"
        count = f"{escape(self._title)} {bar} {self._done:,} of {self._total:,}{self._time_left()}"
        lines = [count, *map(escape, (self._figures, *self._lines))]
        return self._ipython.HTML("".join(f"<div>{line}</div>" for line in lines if line))

    def _time_left(self) -> str:
        moved = self._done - self._first
        if not moved > 0 or self._done >= self._total:
            return ""
        seconds = (time.monotonic() - self._began) / moved * (self._total - self._done)
        return f", {duration(seconds)} left"
