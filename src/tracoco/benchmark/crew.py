"""Several workers on one grid at once, each a process with its share of the cores."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tracoco.errors import Stopped, UserError
from tracoco.training.signals import stop_on_signals

LOOK_SECONDS = 2.0
"""Between two looks at how far everything is."""


def run_crew(arguments: Sequence[str], jobs: int, logs: Path, look: Callable[[], None]) -> None:
    """Start workers with these arguments of the command, and wait for all of them.

    Args:
        arguments: of `tracoco`, which make it a worker.
        jobs: how many.
        logs: a folder for what each worker says.
        look: called every now and then, to show how far they are.
    """
    logs.mkdir(parents=True, exist_ok=True)
    files = [logs / f"worker{number}.log" for number in range(jobs)]
    workers = [_start(arguments, jobs, file) for file in files]
    with stop_on_signals() as stop:
        while any(worker.poll() is None for worker in workers):
            if stop.signal:
                _stop(workers)
                raise Stopped("stopped; the same command goes on from here", stop.signal)
            look()
            time.sleep(LOOK_SECONDS)
    look()
    failed = [file for file, worker in zip(files, workers, strict=True) if worker.returncode]
    if failed:
        raise UserError("\n".join(f"a worker failed: {_last_words(file)}" for file in failed))


def _start(arguments: Sequence[str], jobs: int, log: Path) -> "subprocess.Popen[bytes]":
    threads = max(1, (os.cpu_count() or 1) // jobs)
    # Threads that wait by spinning would take the cores from the other workers.
    environment = os.environ | {"OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "passive"}
    command = [sys.executable, "-m", "tracoco", *arguments]
    with log.open("wb") as file:
        return subprocess.Popen(command, env=environment, stdout=file, stderr=file)  # noqa: S603 - our own command


def _stop(workers: Sequence["subprocess.Popen[bytes]"]) -> None:
    """Ask all to save and end, and give them the time for it."""
    for worker in workers:
        if worker.poll() is None:
            worker.send_signal(signal.SIGTERM)
    for worker in workers:
        worker.wait()


def _last_words(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return f"{lines[-1] if lines else 'it said nothing'} ({log})"
