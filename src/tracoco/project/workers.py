"""Many cases at once: each process has one at a time, so that it is known which it died of."""

import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from multiprocessing import get_all_start_methods, get_context, parent_process
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar

from tracoco.processes import end_with

MOST_WORKERS = 8
BYTES_A_WORKER = 32 * 2**20
"""A process takes seconds to start: in that time another reads as much as this."""

PRELOADED = ["tracoco.project.survey", "tracoco.project.prepare"]
"""Modules that processes work with, whichever of them is the first to be asked for."""

PATIENCE_SECONDS = 5
"""For a process that is to end by itself."""

Task = TypeVar("Task")
Result = TypeVar("Result")


def suitable_workers(bytes_to_read: int) -> int:
    """Processes that pay for themselves on this machine, for so much data."""
    return min(available_cores(), MOST_WORKERS, 1 + bytes_to_read // BYTES_A_WORKER)


def in_parallel(
    work: Callable[[Task], Result],
    tasks: Sequence[Task],
    workers: int,
    *,
    died: Callable[[Task, str], Result],
    begin: Callable[[], None] | None = None,
) -> Generator[tuple[Task, Result], None, None]:
    """Give each task with its result, in the order in which they are done.

    With one worker, all is done in this process. No more results are in memory than there are
    workers. What `work` raises is raised here and ends all of it.

    Args:
        work: a function at the top of a module, since processes find it by its name.
        tasks: what to call it with.
        workers: how many processes.
        died: makes the result of a task whose process ended; the text says how, and what to do.
        begin: called once in each process.
    """
    if min(workers, len(tasks)) <= 1:
        for task in tasks:
            yield task, work(task)
        return
    left, busy = deque(tasks), dict[Connection, _Worker]()
    try:
        for _ in range(min(workers, len(tasks))):
            worker = _Worker(work, begin, left.popleft())
            busy[worker.pipe] = worker
        while busy:
            for pipe in wait(list(busy)):
                worker = busy.pop(pipe)  # type: ignore[call-overload]  # only pipes are waited for
                task, result = worker.task, worker.result(died)
                if left:
                    worker = worker.next(left.popleft())
                    busy[worker.pipe] = worker
                else:
                    worker.end()
                yield task, result
    finally:
        for worker in busy.values():
            worker.stop()


class _Worker:
    """A process and the task that it has now."""

    def __init__(
        self, work: Callable[[Any], Any], begin: Callable[[], None] | None, task: Any
    ) -> None:
        context = _context()
        self._start = (work, begin)
        self.pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, work, begin), daemon=True)
        self._process.start()
        theirs.close()
        self._give(task)

    def next(self, task: Any) -> "_Worker":
        """This process with another task, or a new one in the place of a dead one."""
        if not self._process.is_alive():
            self.stop()
            return _Worker(*self._start, task)
        self._give(task)
        return self

    def result(self, died: Callable[[Any, str], Any]) -> Any:
        """What came of the task; an error is raised as it was."""
        try:
            result, error = self.pipe.recv()
        except (EOFError, OSError):
            self._process.join()
            return died(self.task, _how_it_ended(self._process.exitcode))
        if error is not None:
            raise error
        return result

    def end(self) -> None:
        """Let the process go, which has nothing to do any more."""
        self.pipe.close()
        self._process.join(PATIENCE_SECONDS)
        self.stop()

    def stop(self) -> None:
        """Stop the process, whatever it does."""
        self.pipe.close()
        self._process.terminate()
        self._process.join()

    def _give(self, task: Any) -> None:
        self.task = task
        with suppress(OSError):  # a process that is dead already is noticed when its result is read
            self.pipe.send(task)


def _serve(pipe: Connection, work: Callable[[Any], Any], begin: Callable[[], None] | None) -> None:
    """The life of a process: tasks in, results out, until nobody asks any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends us
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # an exit tidies up half-written files
    parent = parent_process()
    if parent:  # which may be killed while there is a task that takes long
        end_with(lambda: wait([parent.sentinel]))
    if begin:
        begin()
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            task = pipe.recv()
            try:
                pipe.send((work(task), None))
            except Exception as error:  # noqa: BLE001 - it is raised again in the parent
                pipe.send((None, error))


def _context() -> Any:
    """How processes are started: forked off a server that has imported what they need.

    To import torch takes longer than a scan. A fork of this process would inherit the locks of
    torch's threads; the server has none. It runs until this process ends, and what it imports is
    settled when it starts. Windows has no fork, and on macOS the system's libraries may not be
    used behind one.
    """
    if sys.platform == "darwin" or "forkserver" not in get_all_start_methods():
        return get_context("spawn")
    context = get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    return context


def _how_it_ended(exit_code: int | None) -> str:
    """What befell a process, and what to do; a script without a guard is run by each of them."""
    if exit_code is None or exit_code >= 0:
        return (
            f"ended with code {exit_code}, see above; a script needs the guard "
            '`if __name__ == "__main__":` around its calls'
        )
    name = signal.Signals(-exit_code).name
    if name == "SIGKILL":
        return (
            "was killed by SIGKILL, most likely for want of memory; "
            "run it again with fewer --workers, or leave the case out"
        )
    return f"was killed by {name}; leave the case out"


def available_cores() -> int:
    """Cores that this process may use, which may be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
