"""Speaking to a person: progress on standard error, results alone on standard output."""

import itertools
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tracoco.notebook import NotebookBar, in_notebook

QUIET_SECONDS = 2.0
WIDE = 120


def progress_console() -> Console:
    """Where progress goes."""
    return Console(stderr=True)


def say(line: str) -> None:
    """Print one plain line where progress goes."""
    print(line, file=sys.stderr, flush=True)  # noqa: T201 - it is what this module is for


def print_table(table: RenderableType) -> None:
    """Print a result for a person; in a pipe or file wide enough for every number."""
    console = Console()
    width = console.width if console.is_terminal else max(console.width, WIDE)
    Console(width=width).print(table)


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
