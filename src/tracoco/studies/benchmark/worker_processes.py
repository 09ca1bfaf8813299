"""Several workers on one grid: each takes the next run that no other worker has locked.

A lock is one on a file, so that workers on every machine with that disk see it.
"""

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, Literal

from tracoco.console import say
from tracoco.errors import Stopped, UserError, raise_all
from tracoco.methods import INSTALLED, METHODS, SHIPPED
from tracoco.project.workers import available_cores
from tracoco.studies.benchmark.grid import GridRun
from tracoco.studies.benchmark.results import Results
from tracoco.studies.benchmark.runner import Runner, Scoring
from tracoco.training.distributed import stop_on_signals

if sys.platform != "win32":
    import fcntl

NO_LOCKS = {errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}
"""Error numbers of disks that cannot lock files."""


@contextmanager
def in_hand(folder: Path) -> Iterator[bool]:
    """Whether a run is ours for now; the lock goes with the process, even if that is killed.

    Where there are no locks, every run is ours: `check_locks` allows one worker there.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f".{folder.name}.lock").open("w") as file:
        yield _lock(file) != "taken"


def check_locks(root: Path, jobs: int) -> None:
    """Refuse several workers where they could not tell which runs are taken.

    Args:
        root: the folder of the runs.
        jobs: how many workers there are to be.
    """
    root.mkdir(parents=True, exist_ok=True)
    with TemporaryFile(dir=root) as file:
        if _lock(file) != "missing":
            return
    alone = "start this command only once at a time"
    if jobs > 1:
        raise UserError(
            f"{root}: files cannot be locked here, so --jobs {jobs} would do the same runs "
            f"{jobs} times; use --jobs 1, and {alone}"
        )
    say(f"{root}: files cannot be locked here; {alone}")


def _lock(file: IO[Any]) -> Literal["ours", "taken", "missing"]:
    """Lock a file if nobody has, until it is closed; Windows has no such locks."""
    if sys.platform == "win32":
        return "missing"
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return "taken"
    except OSError as error:
        if error.errno in NO_LOCKS:
            return "missing"
        raise
    return "ours"


def work(runs: Sequence[GridRun], runners: Mapping[str, Runner], results: Results) -> None:
    """Bring runs to their end and keep their results.

    A run that fails does not keep the others from being done; at the end one error names all
    that failed. A stop ends the work at once.
    """
    elsewhere, problems = 0, []
    for run in runs:
        try:
            elsewhere += not _take(run, runners[run.dataset], results)
        except Stopped:
            raise
        except UserError as error:
            say(f"{run.name} failed: {error}")
            problems.append(f"{run.name}: {error}")
    if elsewhere:
        say(f"{elsewhere} runs are in the hands of other workers")
    raise_all(problems)


def _take(run: GridRun, runner: Runner, results: Results) -> bool:
    """Do what is left of a run, unless another worker has it in hand: then false."""
    folder = runner.folder(run.spec, run.seed)
    with in_hand(folder) as mine:
        if mine and not results.find(run, folder):
            say(f"{run.name}: {folder.name}")
            results.keep(run, folder, runner.result(run.spec, run.seed, Scoring()))
        return mine


POLL_SECONDS = 2.0
"""Between two updates of how far everything is."""

COMPLAINT = "\ntracoco benchmark: "
"""How the error begins that a worker ends with."""


def run_workers(
    arguments: Sequence[str], logs: Sequence[Path], on_update: Callable[[], None]
) -> list[str]:
    """Start workers with these arguments of the command, and wait for all of them.

    No worker outlives this call, whatever ends it.

    Args:
        arguments: of `tracoco`, which make it a worker.
        logs: a file for what each worker says; there are as many workers.
        on_update: called every now and then, to show how far they are.

    Returns:
        What those said at last that failed.
    """
    workers: list[subprocess.Popen[bytes]] = []
    with stop_on_signals() as stop:
        try:
            for log in logs:
                workers.append(_start(arguments, len(logs), log))
            while not stop.signal and any(worker.poll() is None for worker in workers):
                on_update()
                time.sleep(POLL_SECONDS)
        finally:
            _stop(workers)
    if stop.signal:
        raise Stopped("stopped; the same command goes on from here", stop.signal)
    on_update()
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
    if METHODS.keys() <= SHIPPED | INSTALLED:
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
