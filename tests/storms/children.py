"""Commands in forked processes, which have torch loaded already, so that hundreds can be killed.

The process that forks must have one thread only, and runs no command itself.
"""

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tracoco.cli import main

HANG_SECONDS = 180.0
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.truncate"}
"""Audit events of Python that change what is on the disk, besides opening a file for writing."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    code: int
    """As of `subprocess`: negative if a signal ended it."""
    text: str
    """What it printed."""
    hung: bool = False

    @property
    def traceback(self) -> str:
        """The last line of a traceback that it ended with, if it did."""
        found = "Traceback (most recent call last)" in self.text or self.code == 1
        return self.text.strip().rpartition("\n")[2] or "exit code 1" if found else ""


@dataclass(frozen=True, slots=True)
class Child:
    """A command that runs, in a group of its own with the processes that it starts."""

    pid: int
    log: Path

    def kill(self, number: int = signal.SIGKILL, *, group: bool = True) -> None:
        """Send a signal, if the command still runs."""
        with suppress(ProcessLookupError):
            (os.killpg if group else os.kill)(self.pid, number)

    def wait(self, seconds: float = HANG_SECONDS) -> Ended:
        """Wait for its end; one that hangs is killed."""
        end, hung = time.monotonic() + seconds, False
        while True:
            pid, status = os.waitpid(self.pid, 0 if hung else os.WNOHANG)
            if pid:
                self.kill()  # what it started and left
                text = self.log.read_text(encoding="utf-8", errors="replace")
                return Ended(os.waitstatus_to_exitcode(status), text, hung)
            if time.monotonic() > end:
                hung = True
                self.kill()
            time.sleep(0.002)


def launch(words: Sequence[str], log: Path, first: Callable[[], None] | None = None) -> Child:
    """Start a command of the package.

    Args:
        words: of `tracoco`, without that word.
        log: a file for what it prints.
        first: called in the new process before the command.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        with suppress(OSError):
            os.setpgid(pid, pid)  # here too: it must be so before anybody signals the group
        return Child(pid, log)
    code = 1
    try:
        os.setpgid(0, 0)
        handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        if first:
            first()
        sys.argv = ["tracoco", *words]
        main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001 - a traceback is what is looked for
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def killed_at_change(number: int, folder: Path, count: Path | None = None) -> Callable[[], None]:
    """For `launch`: have the process killed just before it changes the disk for so many times.

    Args:
        number: of the change below `folder` that is not made; 0 for none.
        folder: other changes do not count.
        count: a file that grows by a byte a change.
    """
    root, seen = str(folder), 0

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal seen
        if event == "open":
            changes = isinstance(arguments[2], int) and arguments[2] & WRITING
        else:
            changes = event in CHANGES
        if not changes or not str(arguments[0]).startswith(root):
            return
        seen += 1
        if counted is not None:
            os.write(counted, b".")
        if seen == number:
            os.kill(os.getpid(), signal.SIGKILL)

    counted: int | None = None

    def install() -> None:
        nonlocal counted
        if count:
            counted = os.open(count, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        sys.addaudithook(hook)

    return install


def run(words: Sequence[str], log: Path) -> Ended:
    """Run a command to its end."""
    return launch(words, log).wait()
