"""Signals that ask to stop, and processes that end with the one that started them."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tracoco.errors import Stopped, UserError, collected
from tracoco.processes import (
    STOP_SIGNALS,
    interrupted_by_signals,
    is_alive,
    start_time,
    stop_on_signals,
)

TESTS = Path(__file__).parent


def send(number: int) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_a_signal_is_noted_and_the_old_handlers_come_back(number: int) -> None:
    before = [signal.getsignal(each) for each in STOP_SIGNALS]
    with stop_on_signals() as request:
        assert request.signal == 0
        send(number)
        assert request.signal == number
    assert [signal.getsignal(each) for each in STOP_SIGNALS] == before


def test_these_signals_stop() -> None:
    names = {signal.Signals(number).name for number in STOP_SIGNALS}
    assert names == {"SIGTERM", "SIGINT", "SIGUSR1", "SIGUSR2", "SIGHUP", "SIGQUIT"}


def test_a_second_interrupt_interrupts() -> None:
    with stop_on_signals():
        send(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            send(signal.SIGINT)


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_work_in_pieces_is_left_at_once_and_no_handler_of_errors_takes_it_for_one(
    number: int,
) -> None:
    problems: list[str] = []

    def read() -> None:
        try:
            send(number)
            problems.append("it went on")
        except Exception as error:
            raise UserError("damaged") from error

    def work() -> None:
        with interrupted_by_signals("go on"), collected(problems):
            read()

    with pytest.raises(Stopped, match=r"^go on$") as caught:
        work()
    assert caught.value.signal == number
    assert problems == []


def test_what_is_being_completed_is_completed_first() -> None:
    done = []

    def work() -> None:
        with interrupted_by_signals("go on") as stop:
            with stop.completing():
                send(signal.SIGUSR1)
                done.append("written")
            done.append("never")

    with pytest.raises(Stopped):
        work()
    assert done == ["written"]


def test_nohup_is_respected() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_on_signals() as request:
            send(signal.SIGHUP)
            assert request.signal == 0
    finally:
        signal.signal(signal.SIGHUP, before)


def test_outside_the_main_thread_signals_are_left_alone() -> None:
    before, found = signal.getsignal(signal.SIGTERM), []

    def work() -> None:
        with stop_on_signals(), interrupted_by_signals("go on"):
            found.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [before]


def test_a_process_lives_until_it_has_ended() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        started = start_time(process.pid)
        assert started > 0
        assert is_alive(process.pid, started)
        assert not is_alive(process.pid, started + 1)  # another one with that number
        process.kill()
        until(lambda: not is_alive(process.pid, started))  # a zombie


BENCHMARK = """
import sys
from pathlib import Path
from tracoco.studies.benchmark import worker_processes
code = (
    "import os, sys, time; from tracoco.processes import end_with_parent; end_with_parent(); "
    "open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(60)"
)
worker_processes._program = lambda: ["-c", code]
file = sys.argv[1]
worker_processes.run_workers([file], [Path(file).with_suffix(".log")], lambda: None)
"""
PREPARE = """
import sys
import worker_tasks
from tracoco.project.workers import in_parallel
files = [sys.argv[1], sys.argv[1] + "2"]
if __name__ == "__main__":
    list(in_parallel(worker_tasks.say_and_linger, files, 2, died=worker_tasks.lost))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="nobody can be killed so there")
@pytest.mark.parametrize("code", [BENCHMARK, PREPARE], ids=["benchmark", "prepare"])
def test_workers_end_when_their_parent_is_killed(tmp_path: Path, code: str) -> None:
    script, file = tmp_path / "parent.py", tmp_path / "worker.txt"
    script.write_text(code)
    paths = [str(TESTS), *sys.path]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    with subprocess.Popen([sys.executable, str(script), str(file)], env=environment) as parent:
        try:
            until(lambda: file.exists() and file.read_text() != "")
            worker = int(file.read_text())
            started = start_time(worker)
            assert is_alive(worker, started)
        finally:
            parent.kill()
    until(lambda: not is_alive(worker, started))


def until(happened: Callable[[], bool]) -> None:
    """Wait for it, for a minute at most."""
    deadline = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture(autouse=True)
def _no_signal_is_lost() -> Iterator[None]:
    """A signal that nothing handles would end all tests."""
    before = {each: signal.getsignal(each) for each in STOP_SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
