"""One writer per folder, whatever is written there: projects, runs, predictions, reports.

A second writer gets an error that names the first; the lock of a dead one is taken over
(`lock_file`). A holder renews its lock every `BEAT_SECONDS`. One that was suspended for so long
that its lock was taken over notices before it puts its next file in place (`check_held`).
"""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from socket import gethostname

from tracoco import lock_file
from tracoco.console import say
from tracoco.errors import UserError
from tracoco.lock_file import (
    REMOVAL,
    TEMPORARY,
    Holder,
    create,
    in_use,
    living_holder,
    remove,
    sweep,
)
from tracoco.processes import new_token

LOCK = ".tracoco-lock"
BEAT_SECONDS = 10.0
PATIENCE_SECONDS = 60.0
"""So long one waits for others that hold a lock only for a moment."""


class InUse(UserError):  # noqa: N818 - the folder is
    """Another process is writing into the folder."""


@dataclass(slots=True)
class Lock:
    """A lock that this process holds."""

    path: Path
    token: str
    handle: int
    """Of the lock file, which carries the `flock`."""
    thread: int
    over: threading.Event = field(default_factory=threading.Event)

    def is_ours(self) -> bool:
        """Whether the file in its place is still the one that was made for this process."""
        try:
            ours, there = os.fstat(self.handle), self.path.lstat()
        except OSError:
            return False
        return (ours.st_dev, ours.st_ino) == (there.st_dev, there.st_ino)

    def beat(self) -> None:
        """Renew the file that is ours, wherever it is by now, until the lock is given back."""
        while not self.over.wait(BEAT_SECONDS):
            with suppress(OSError):
                os.utime(self.handle)

    def release(self) -> None:
        """Give the lock back, unless it was taken over."""
        self.over.set()
        ours = self.is_ours()
        os.close(self.handle)
        with suppress(OSError, UserError):  # e.g. a full disk: the token says that it is free
            if ours:
                remove(self.path, Holder(self.token))
        in_use.discard(self.token)


_held: dict[Path, Lock] = {}


def _forget_locks() -> None:
    """In a process that was forked off: the locks are its parent's, and nobody beats here."""
    for lock in _held.values():
        os.close(lock.handle)
    _held.clear()
    in_use.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_locks)


@contextmanager
def only_writer(folder: Path, command: str, *, of: str = "") -> Iterator[None]:
    """Be the only one who writes into a folder; it is made, and removed again if it stays empty.

    What dead writers left half-written is removed. The same thread may lock a folder again.

    Args:
        folder: where is written.
        command: what the user called, for the error that another gets.
        of: one thing in the folder that is written beside the others, e.g. `report`.
    """
    folder = folder.absolute()
    path = folder / (f"{LOCK}-{of}" if of else LOCK)
    if _is_held(path):
        yield
        return
    with _made(folder), _locked(path, command):
        if not of:
            _refuse_parts(folder)
        sweep(folder)
        yield


@contextmanager
def one_of_writers(folder: Path, command: str, part: tuple[int, int]) -> Iterator[None]:
    """Write one part of what several processes write into a folder together.

    A writer of the whole folder is refused, and so are parts of another division and a second
    writer of the same part.

    Args:
        folder: where is written.
        command: what the user called, for the error that another gets.
        part: (k, n) for the k-th of n parts.
    """
    folder = folder.absolute()
    path = folder / f"{LOCK}-{part[0]}of{part[1]}"
    with _made(folder):
        with _locked(folder / LOCK, command, entering=True):
            _refuse_parts(folder, but_of=part[1])
            lock = _acquired(path, command)
        with _kept(lock):
            sweep(folder)
            yield


def shard_writer(
    folder: Path, command: str, shard: tuple[int, int] | None
) -> AbstractContextManager[None]:
    """The writer of one of several shards, or of all where there is but one."""
    if shard is None or shard[1] == 1:
        return only_writer(folder, command)
    return one_of_writers(folder, f"{command} --shard", shard)


@contextmanager
def alone_for_a_moment(folder: Path, command: str) -> Iterator[None]:
    """For a writer of a part: none of the others is in here now."""
    path = folder.absolute() / LOCK
    if _is_held(path):  # of the whole folder
        yield
        return
    with _locked(path, command, entering=True, patience=PATIENCE_SECONDS):
        yield


def check_held(path: Path) -> None:
    """Refuse to write into a folder that this process had locked and that another took over."""
    path = path.absolute()
    for lock in list(_held.values()):
        if path.is_relative_to(lock.path.parent) and not lock.is_ours():
            raise UserError(
                f"{path} is not written: {lock.path} was taken over by another process while this "
                "one was suspended, or was deleted; run the same command again"
            )


def own_content(folder: Path) -> list[Path]:
    """What lies in a folder besides locks and half-written files; nothing if it is not there."""
    found = folder.iterdir() if folder.is_dir() else ()
    return [path for path in found if not path.name.startswith((LOCK, TEMPORARY, REMOVAL))]


@contextmanager
def _made(folder: Path) -> Iterator[None]:
    """A folder that exists; what was made for it and is empty at the end is removed."""
    new = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        with suppress(OSError):
            for path in new:
                path.rmdir()


@contextmanager
def _locked(
    path: Path, command: str, *, entering: bool = False, patience: float = 0.0
) -> Iterator[None]:
    with _kept(_acquired(path, command, entering=entering, patience=patience)):
        yield


@contextmanager
def _kept(lock: Lock) -> Iterator[None]:
    _held[lock.path] = lock
    # A daemon: it keeps no process alive, and ends with the one whose lock it renews.
    threading.Thread(target=lock.beat, name="lock", daemon=True).start()
    try:
        yield
    finally:
        if _held.pop(lock.path, None):  # not in a process that was forked off meanwhile
            lock.release()


def _is_held(path: Path) -> bool:
    lock = _held.get(path)
    return lock is not None and lock.thread == threading.get_ident()


def _acquired(path: Path, command: str, *, entering: bool = False, patience: float = 0.0) -> Lock:
    """Make a lock, in the place of a dead one if there is one."""
    since = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M")
    holder = Holder(new_token(), gethostname(), command, since, entering)
    in_use.add(holder.token)
    try:
        handle = _waited_for(path, holder, patience)
    except BaseException:
        in_use.discard(holder.token)
        raise
    return Lock(path, holder.token, handle, threading.get_ident())


def _waited_for(path: Path, holder: Holder, patience: float) -> int:
    began, told = time.monotonic(), False
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)  # who made it may have removed it again
        with suppress(FileNotFoundError):
            handle = create(path, holder)
            if handle is not None:
                return handle
            found = living_holder(path)
            waits = _patience_with(found, patience)
            if found and found.silent and not told:
                told = True
                say(
                    f"{path.parent} was being written by {found}, which gives no sign of life; "
                    f"waiting for one, about {waits:.0f} s at most"
                )
            if found and time.monotonic() - began >= waits:
                raise InUse(
                    f"{path.parent} is being written by {found}; wait for its end, or choose "
                    "another folder"
                )
            if found and found.silent:
                time.sleep(1)
        time.sleep(0.01)


def _patience_with(found: Holder | None, patience: float) -> float:
    """Seconds to wait for a holder: a job that a scheduler starts again must outlast a dead one."""
    if found and found.silent:
        return lock_file.STALE_SECONDS
    return PATIENCE_SECONDS if found and found.entering else patience


def _refuse_parts(folder: Path, but_of: int | None = None) -> None:
    """Refuse a folder in which somebody writes a part, unless it is one of as many parts."""
    for path in folder.glob(f"{LOCK}-[0-9]*of[0-9]*"):
        found = None if path.name.endswith(f"of{but_of}") else living_holder(path)
        if found:
            part = path.name.removeprefix(f"{LOCK}-")
            raise InUse(
                f"{folder} is being written by {found}, part {part}; wait for its end, or choose "
                "another folder"
            )
