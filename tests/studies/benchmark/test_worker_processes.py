"""Workers are processes that never outlive the command that started them."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from tracoco.errors import Stopped
from tracoco.studies.benchmark import worker_processes as workers
from tracoco.studies.benchmark.worker_processes import run_workers

Process = subprocess.Popen[bytes]
WAITING = "import time; time.sleep(60)"


def nothing() -> None:
    pass


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Process]:
    """The processes that were started; what a worker is to do stands in place of the arguments."""
    processes = []

    def start(arguments: Sequence[str], environment: Mapping[str, str], log: Path) -> Process:  # noqa: ARG001 - as workers calls it
        with log.open("wb") as file:
            command = [sys.executable, "-c", *arguments]
            processes.append(subprocess.Popen(command, stdout=file, stderr=file))
        return processes[-1]

    monkeypatch.setattr(workers, "_start", start)
    monkeypatch.setattr(workers, "POLL_SECONDS", 0.05)
    return processes


def test_workers_end_when_nobody_can_be_shown_how_far_they_are(
    tmp_path: Path, started: list[Process]
) -> None:
    def on_update() -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        run_workers([WAITING], [tmp_path / "0.log", tmp_path / "1.log"], on_update)
    assert [process.returncode for process in started] == [-signal.SIGTERM] * 2


def test_the_first_worker_ends_when_the_second_does_not_start(
    tmp_path: Path, started: list[Process]
) -> None:
    with pytest.raises(FileNotFoundError):
        run_workers([WAITING], [tmp_path / "0.log", tmp_path / "nowhere" / "1.log"], nothing)
    assert [process.returncode for process in started] == [-signal.SIGTERM]


def test_a_signal_while_workers_start_stops_them(
    tmp_path: Path, started: list[Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    start: Callable[[Sequence[str], Mapping[str, str], Path], Process] = workers._start

    def interrupted(arguments: Sequence[str], environment: Mapping[str, str], log: Path) -> Process:
        os.kill(os.getpid(), signal.SIGTERM)
        return start(arguments, environment, log)

    # Without this, a signal that nobody notes would end the tests.
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        monkeypatch.setattr(workers, "_start", interrupted)
        with pytest.raises(Stopped, match="goes on from here"):
            run_workers([WAITING], [tmp_path / "0.log"], nothing)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert [process.returncode for process in started] == [-signal.SIGTERM]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (
            "print('run 1'); print('tracoco benchmark: 2 problems:\\n  a: x\\n  b: y'); exit(2)",
            ["2 problems:\n  a: x\n  b: y (all it said: LOG)"],
        ),
        ("print('run 1'); 1 / 0", ["a worker failed: ZeroDivisionError: division by zero (all"]),
        ("exit(1)", ["a worker failed: it said nothing (all it said: LOG)"]),
        ("print('tracoco benchmark: fine')", []),
    ],
)
@pytest.mark.usefixtures("started")
def test_the_last_words_of_a_worker_that_failed_are_told(
    tmp_path: Path, code: str, said: list[str]
) -> None:
    log = tmp_path / "0.log"
    told = run_workers([code], [log], nothing)
    assert len(told) == len(said)
    for text, start in zip(told, said, strict=True):
        assert text.startswith(start.replace("LOG", str(log)))


@pytest.mark.parametrize(("users", "threads"), [(None, "3"), ("5", "5")])
def test_workers_share_the_cores_unless_the_user_says_otherwise(
    monkeypatch: pytest.MonkeyPatch, users: str | None, threads: str
) -> None:
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if users:
        monkeypatch.setenv("OMP_NUM_THREADS", users)
    monkeypatch.setattr(workers, "available_cores", lambda: 7)
    given = workers.worker_environment(1, 2, [])
    assert (given["OMP_NUM_THREADS"], given["OMP_WAIT_POLICY"]) == (threads, "passive")


OWN_FILE = """
import sys
from pathlib import Path
from tracoco.studies.benchmark.worker_processes import run_workers
from tracoco.methods import MethodRow, register_method

REGISTER
if "--worker" in sys.argv:
    print("worker of the file:", *sys.argv[1:])
else:
    print(*run_workers(["grid.yaml", "--worker"], [Path("0.log")], lambda: None))
"""
REGISTER = (
    "register_method('mine', MethodRow(target='x:X', idea='Mine.', trained_by_unlabelled=()))"
)


@pytest.mark.parametrize(
    ("register", "said"),
    [(REGISTER, "worker of the file: grid.yaml --worker\n"), ("", "No such command 'grid.yaml'")],
)
def test_workers_go_through_the_file_that_registers_a_method(
    tmp_path: Path, register: str, said: str
) -> None:
    (tmp_path / "mine.py").write_text(OWN_FILE.replace("REGISTER", register))
    command = [sys.executable, "-B", "mine.py", "benchmark", "grid.yaml"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=60)
    assert said in (tmp_path / "0.log").read_text()
