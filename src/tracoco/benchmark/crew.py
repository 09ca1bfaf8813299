"""Several workers on one grid at once, each a process with its share of the cores."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tracoco.errors import Stopped
from tracoco.methods import METHODS, SHIPPED
from tracoco.project.workers import available_cores
from tracoco.training.signals import stop_on_signals

LOOK_SECONDS = 2.0
"""Between two looks at how far everything is."""

COMPLAINT = "\ntracoco benchmark: "
"""How the error begins that a worker ends with."""


def run_crew(arguments: Sequence[str], logs: Sequence[Path], look: Callable[[], None]) -> list[str]:
    """Start workers with these arguments of the command, and wait for all of them.

    No worker outlives this call, whatever ends it.

    Args:
        arguments: of `tracoco`, which make it a worker.
        logs: a file for what each worker says; there are as many workers.
        look: called every now and then, to show how far they are.

    Returns:
        What those said at last that failed.
    """
    workers: list[subprocess.Popen[bytes]] = []
    with stop_on_signals() as stop:
        try:
            for log in logs:
                workers.append(_start(arguments, len(logs), log))
            while not stop.signal and any(worker.poll() is None for worker in workers):
                look()
                time.sleep(LOOK_SECONDS)
        finally:
            _stop(workers)
    if stop.signal:
        raise Stopped("stopped; the same command goes on from here", stop.signal)
    look()
    failed = [log for log, worker in zip(logs, workers, strict=True) if worker.returncode]
    return [f"{_last_words(log)} (all it said: {log})" for log in failed]


def _start(arguments: Sequence[str], jobs: int, log: Path) -> "subprocess.Popen[bytes]":
    threads = max(1, available_cores() // jobs)
    # Threads that wait by spinning would take the cores from the other workers.
    ours = {"OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "passive"}
    environment = ours | os.environ  # what the user has set stays
    command = [sys.executable, *_program(), *arguments]
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as file:
        return subprocess.Popen(command, env=environment, stdout=file, stderr=file)  # noqa: S603 - our own command


def _program() -> list[str]:
    """What Python is to run: the package, or the file which has registered methods of its own."""
    if METHODS.keys() <= SHIPPED:
        return ["-m", "tracoco"]
    return sys.orig_argv[1 : len(sys.orig_argv) - len(sys.argv[1:])]


def _stop(workers: Sequence["subprocess.Popen[bytes]"]) -> None:
    """Ask those that still run to save and end, and give them the time for it."""
    for worker in workers:
        if worker.poll() is None:
            worker.send_signal(signal.SIGTERM)
    for worker in workers:
        worker.wait()


def _last_words(log: Path) -> str:
    """The error that a worker ended with, all of its lines; of a crash the last line."""
    text = "\n" + log.read_text(encoding="utf-8", errors="replace").strip()
    _, complained, error = text.rpartition(COMPLAINT)
    return error if complained else f"a worker failed: {text.splitlines()[-1] or 'it said nothing'}"
