"""Processes: who one is, whether it lives, its part of a command's work, and signals to stop."""

import os
import re
import secrets
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from types import FrameType
from typing import TypeVar

from tracoco.errors import Stopped, UserError

PROC = Path("/proc")
WATCH_STDIN = "TRACOCO_END_WITH_STDIN"
"""A process with this variable ends once its standard input does, which its parent holds open."""


@cache
def machine() -> str:
    """What numbers of processes belong to: this host since it was started, or one container of it.

    Two containers may have one host name, and a host that was started anew counts from 1 again.
    """
    parts = [socket.gethostname()]
    with suppress(OSError):
        parts.append((PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip())
        parts.append(str((PROC / "self/ns/pid").readlink()))
    return sha256("\n".join(parts).encode()).hexdigest()[:8]


def start_time(pid: int) -> int:
    """When a process was started, in ticks since the machine was; 0 where that is not known.

    It tells a process from a later one with the same number. A process that has ended and whose
    parent has not asked for it yet counts as gone.
    """
    try:
        text = (PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    fields = text.rpartition(")")[2].split()  # its name, in brackets, may hold anything
    return 0 if fields[0] in "ZX" else int(fields[19])


def is_alive(pid: int, started: int) -> bool:
    """Whether a process of this machine lives.

    Args:
        pid: its number.
        started: its `start_time`; 0 if that was not known.
    """
    if sys.platform == "win32":  # nobody can be asked there without being ended
        return True
    if (PROC / "self" / "stat").exists():
        found = start_time(pid)
        return found != 0 and started in (0, found)
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def new_token() -> str:
    """A text that no other has, with the process in it that made it: `machine.pid.start.random`."""
    pid = os.getpid()
    return f"{machine()}.{pid}.{start_time(pid)}.{secrets.token_hex(4)}"


def end_with_parent() -> None:
    """Have this process asked to end, as by SIGTERM, when the one that started it is gone.

    However that one ends, the system closes its end of our standard input, which nobody writes to.
    A process whose parent did not ask for this is left alone.
    """
    if os.environ.pop(WATCH_STDIN, None):
        end_with(lambda: os.read(0, 1))


def end_with(wait: Callable[[], object]) -> None:
    """Have this process asked to end once `wait` returns, which waits for the parent's end."""

    def watch() -> None:
        with suppress(OSError):
            wait()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="parent", daemon=True).start()


STOP_SIGNALS = tuple(
    getattr(signal, name)
    for name in ("SIGTERM", "SIGINT", "SIGUSR1", "SIGUSR2", "SIGHUP", "SIGQUIT")
    if hasattr(signal, name)
)
"""Schedulers warn by USR1 and USR2 before the end of the time; HUP is a connection that is lost."""


@dataclass(slots=True)
class StopRequest:
    """The signal that asked this process to stop, or 0."""

    signal: int = 0
    deferred: bool = False
    """Whether a stop waits until what is written is complete."""

    @contextmanager
    def completing(self) -> Iterator[None]:
        """What is done in here is completed before a stop interrupts."""
        self.deferred = True
        try:
            yield
        finally:
            self.deferred = False
        if self.signal:
            raise _Interrupted


class _Interrupted(KeyboardInterrupt):
    """Leaves what is under way; no handler of errors takes it for one."""


@contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """Note the first signal that asks to stop instead of dying of it; a second SIGINT interrupts.

    Outside the main thread, where Python allows no handler, signals are left alone.
    """
    request = StopRequest()

    def note(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - signal's signature
        request.signal = number
        signal.signal(signal.SIGINT, signal.default_int_handler)

    with _handled_by(note):
        yield request


@contextmanager
def interrupted_by_signals(message: str) -> Iterator[StopRequest]:
    """Leave the block at the first signal that asks to stop, and raise `Stopped` with the message.

    For work that is written piece by piece, each of them whole: what is there stays, and what was
    under way is done again the next time.
    """
    request = StopRequest()

    def interrupt(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the same
        first, request.signal = not request.signal, number
        if not request.deferred and (first or number == signal.SIGINT):
            raise _Interrupted

    try:
        with _handled_by(interrupt):
            yield request
    except _Interrupted:
        raise Stopped(message, request.signal) from None


@contextmanager
def _handled_by(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    for number, earlier in before.items():
        if not _ignored_by_nohup(number, earlier):
            signal.signal(number, handler)
    try:
        yield
    finally:
        _give_back(before)


def _ignored_by_nohup(number: int, earlier: object) -> bool:
    return number == getattr(signal, "SIGHUP", None) and earlier == signal.SIG_IGN


def _give_back(before: Mapping[int, object]) -> None:
    for number, handler in before.items():
        # None: a handler that was not set by Python, which cannot be put back.
        signal.signal(number, signal.SIG_DFL if handler is None else handler)  # type: ignore[arg-type]  # it came from signal


Shard = tuple[int, int]
"""(k, n): the k-th of n parts of the work of one command, counted from 1: `--shard 2/4`."""

Item = TypeVar("Item")


def shard_of(items: Sequence[Item], shard: Shard) -> list[Item]:
    """One part of the items; parts differ in length by one at most."""
    part, parts = shard
    _check_shard(shard, f"{part}/{parts}")
    return list(items[part - 1 :: parts])


def parse_shard(text: str) -> Shard:
    """`2/4`: the second of four parts."""
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    part, parts = (int(number) for number in match.groups()) if match else (0, 0)
    _check_shard((part, parts), text)
    return part, parts


def _check_shard(shard: Shard, text: str) -> None:
    if not 1 <= shard[0] <= shard[1]:
        raise UserError(f"--shard {text} is no part; give 1/4, 2/4, 3/4 or 4/4 to four machines")
