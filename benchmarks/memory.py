"""How much memory something takes: a process of its own each time, and only what it allocated.

Pages that are mapped from files are not counted, since the system takes them back when it likes.
"""

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import ParamSpec, TypeVar

SAMPLE_SECONDS = 0.005
GIVEN_BACK = {"MALLOC_MMAP_THRESHOLD_": "1000000"}
"""Blocks of a megabyte go back to the system when they are freed. By itself glibc keeps many of
them for later, so that a peak says as much of its habits as of what was measured."""

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def in_fresh_process(
    function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
) -> Result:
    """Call a function of a module in a process that has done nothing before."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *args, **kwargs).result()


def in_tidy_process(
    function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
) -> Result:
    """The same, in a process that gives memory back as soon as it is freed."""
    before = {name: os.environ.get(name) for name in GIVEN_BACK}
    os.environ.update(GIVEN_BACK)
    try:
        return in_fresh_process(function, *args, **kwargs)
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


def anonymous_mb() -> float:
    """What this process holds now, in MB of a million bytes."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    held = next(line for line in lines if line.startswith("RssAnon"))
    return int(held.split()[1]) * 1024 / 1e6


@dataclass(slots=True)
class Peak:
    """The most that was seen so far."""

    mb: float = 0.0


@contextmanager
def watched_memory() -> Iterator[Peak]:
    """Look at this process's memory all the time; the peak is known at the end."""
    peak, done = Peak(), threading.Event()

    def watch() -> None:
        while not done.wait(SAMPLE_SECONDS):
            peak.mb = max(peak.mb, anonymous_mb())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield peak
    finally:
        done.set()
        watcher.join()
