"""Progress in a notebook: one output of a cell, updated in place."""

import sys
import time
from html import escape
from importlib import import_module
from typing import Any

from tracoco.text import duration

UPDATE_SECONDS = 0.2


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
