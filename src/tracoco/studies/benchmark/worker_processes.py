"""Several workers on one grid: each takes the next run that no other worker has locked.

Workers on every machine with that disk see these locks (`tracoco.lock`).
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import torch

from tracoco.console import say
from tracoco.errors import Stopped, UserError, raise_all
from tracoco.lock import InUse, only_writer
from tracoco.methods import INSTALLED, METHODS, SHIPPED
from tracoco.processes import WATCH_STDIN, stop_on_signals
from tracoco.project.workers import available_cores
from tracoco.studies.benchmark.grid import GridRun
from tracoco.studies.benchmark.results import Results
from tracoco.studies.benchmark.runner import Runner, Scoring


def work(runs: Sequence[GridRun], runners: Mapping[str, Runner], results: Results) -> None:
    """Bring runs to their end and keep their results.

    A run that fails does not keep the others from being done; at the end one error names all
    that failed. A stop ends the work at once. Runs that other workers had are looked at again, as
    long as some of them turn out to be free: their worker may have died.
    """
    left, problems = list(runs), list[str]()
    while left:
        elsewhere = [run for run in left if not _tried(run, runners, results, problems)]
        if len(elsewhere) == len(left):
            say(f"{len(elsewhere)} runs are in the hands of other workers")
            break
        left = elsewhere
    raise_all(problems)


def _tried(
    run: GridRun, runners: Mapping[str, Runner], results: Results, problems: list[str]
) -> bool:
    """Whether a run is done, or has failed, which is noted; else another worker has it."""
    try:
        return _take(run, runners[run.dataset], results)
    except Stopped:
        raise
    except UserError as error:
        say(f"{run.name} failed: {error}")
        problems.append(f"{run.name}: {error}")
        return True


def _take(run: GridRun, runner: Runner, results: Results) -> bool:
    """Do what is left of a run, unless another worker has it in hand: then false."""
    folder = runner.folder(run.spec, run.seed)
    with ExitStack() as stack:
        try:
            stack.enter_context(only_writer(folder, "benchmark"))
        except InUse:
            return False
        if not results.find(run, folder):
            say(f"{run.name}: {folder.name}")
            results.keep(run, folder, runner.result(run.spec, run.seed, Scoring()))
        return True


POLL_SECONDS = 2.0
"""Between two updates of how far everything is."""

COMPLAINT = "\ntracoco benchmark: "
"""How the error begins that a worker ends with."""


def run_workers(
    arguments: Sequence[str], logs: Sequence[Path], on_update: Callable[[], None]
) -> list[str]:
    """Start workers with these arguments of the command, and wait for all of them.

    No worker outlives this call, whatever ends it: not even the end of this process by SIGKILL,
    since workers watch their standard input, which the system closes then.

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
            gpus = visible_gpus()
            for slot, log in enumerate(logs):
                environment = worker_environment(slot, len(logs), gpus)
                workers.append(_start(arguments, environment, log))
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


def visible_gpus() -> list[str]:
    """The GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them."""
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    if given is not None:
        return [name for name in given.split(",") if name.strip()]
    return [str(number) for number in range(torch.cuda.device_count())]


def worker_environment(slot: int, slots: int, gpus: list[str]) -> dict[str, str]:
    """What the worker of a slot is given: a GPU, a fair part of the cores, and no other processes.

    What the user has set for threads stays.
    """
    threads = max(1, available_cores() // slots)
    # Threads that wait by spinning would take the cores from the other workers.
    shared = {"OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "passive"} | os.environ
    own = {"CUDA_VISIBLE_DEVICES": gpus[slot % len(gpus)]} if gpus else {}
    return shared | own | {"WORLD_SIZE": "1"}


def _start(
    arguments: Sequence[str], environment: Mapping[str, str], log: Path
) -> "subprocess.Popen[bytes]":
    command = [sys.executable, *_program(), *arguments]
    log.parent.mkdir(parents=True, exist_ok=True)
    watching = {**environment, WATCH_STDIN: "1"}
    with log.open("wb") as file:
        return subprocess.Popen(  # noqa: S603 - our own command
            command, env=watching, stdin=subprocess.PIPE, stdout=file, stderr=file
        )


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
