"""A lock file: made in one exclusive step, renewed by its holder, judged and removed by others.

Made for disks that several hosts share. All hosts see an exclusive step of the file system, while
some disks keep `flock` to one host. A lock is dead

- at once, if its process was of this machine and has ended;
- if it is of another machine, or cannot be read, once it was not renewed for `STALE_SECONDS` by the
  clock of the disk: its time is compared with that of a file that was just written there, so that
  the clocks of hosts do not matter. A `flock` that somebody has keeps it alive even then.

A lock is removed only by who has the right to remove this very one, and that right is taken by an
exclusive step too. So of several who find a dead lock one removes it, and a lock that was made
meanwhile is left alone.
"""

import json
import os
import re
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from socket import gethostname

from tracoco.errors import full_disk_named
from tracoco.processes import is_alive, machine, new_token

if sys.platform != "win32":
    import fcntl

TEMPORARY, REMOVAL = ".tracoco-tmp-", ".tracoco-removal-"
"""How names begin of files that are being written, and of rights to remove a lock."""
SILENT_SECONDS, STALE_SECONDS = 30.0, 120.0
LONGEST_RECORD = 4096
LONGEST_NAME = 50
"""Characters, so that a name with what stands before it is one that every disk takes."""
TOKEN = re.compile(r"([0-9a-f]{8})\.(\d+)\.(\d+)\.[0-9a-f]{8}")
in_use = set[str]()
"""Tokens of the locks that this process has or is about to make."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Who has a lock, as its file says; nobody known if that cannot be read."""

    token: str = ""
    host: str = "an unknown host"
    command: str = ""
    since: str = "an unknown time"
    entering: bool = False
    """Whether the lock is held only for a moment, until a lock of a part is made."""
    silent: bool = False
    """Whether the lock is not renewed as it should be, while its process may live."""

    @property
    def process(self) -> tuple[str, int, int] | None:
        """Machine, number and start of the process, where it is known."""
        found = TOKEN.match(self.token)
        return (found[1], int(found[2]), int(found[3])) if found else None

    @property
    def is_here(self) -> bool:
        """Whether the process is one of this machine."""
        return self.process is not None and self.process[0] == machine()

    def __str__(self) -> str:
        """The holder in words."""
        program = f"`tracoco {self.command}`" if self.command else "an unknown command"
        number = f"process {self.process[1]} on " if self.process else ""
        return f"{program} ({number}{self.host}, since {self.since})"


def temporary_name(name: str) -> str:
    """A name that no other process uses, with the end of `name`; `sweep` knows its writer."""
    return f"{TEMPORARY}{new_token()}.{name[-LONGEST_NAME:]}"


def create(path: Path, holder: Holder) -> int | None:
    """Make a lock file and give its handle, which carries a `flock`; None where there is one."""
    claim = path.with_name(temporary_name(path.name))
    handle = os.open(claim, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
    made = False
    try:
        with full_disk_named(path):
            os.write(handle, json.dumps(asdict(holder)).encode())
        _has_flock(handle)  # before others can see the file
        made = _linked(claim, path)
    finally:
        if not made:
            os.close(handle)
        claim.unlink(missing_ok=True)
    return handle if made else None


def _linked(claim: Path, path: Path) -> bool:
    """Give a file a name that nobody has; where there are no links, by moving it there."""
    try:
        os.link(claim, path)
    except FileExistsError:
        # Over a network an answer may be lost, and the step be told as failed that was made.
        return claim.stat().st_nlink == 2
    except FileNotFoundError:
        raise
    except OSError:
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o666))
        except FileExistsError:
            return False
        claim.replace(path)
    return True


def _has_flock(handle: int) -> bool:
    """Whether nobody else has the `flock` of a file, as far as the disk has such locks."""
    if sys.platform == "win32":
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # this disk has none
        return True
    return True


def living_holder(path: Path) -> Holder | None:
    """Who has a lock; None if there is none any more, or it was removed since its holder died."""
    found = _examined(path)
    if found is None:
        return None
    holder, changed, free = found
    if (free or holder.is_here) and _is_dead(holder, changed, path.parent):
        remove(path, holder)
        return None
    silent = not holder.is_here and _age(changed, path.parent) > SILENT_SECONDS
    return replace(holder, silent=silent)


def _examined(path: Path) -> tuple[Holder, float, bool] | None:
    """What a lock file says, its time, and whether its `flock` is free; None without a file.

    It is opened anew each time, since that has a network disk tell the time as it is now.
    """
    try:
        handle = _opened(path)
    except FileNotFoundError:
        return None
    except OSError:  # not ours to read, or a link that somebody planted
        with suppress(FileNotFoundError):
            return Holder(), path.lstat().st_mtime, True
        return None
    try:
        text, changed = os.read(handle, LONGEST_RECORD), os.fstat(handle).st_mtime
        return _record(text), changed, _has_flock(handle)
    finally:
        os.close(handle)


def _opened(path: Path) -> int:
    no_link = getattr(os, "O_NOFOLLOW", 0)
    try:
        return os.open(path, os.O_RDWR | no_link)  # network disks want this for a flock
    except PermissionError:
        return os.open(path, os.O_RDONLY | no_link)


def _record(text: bytes) -> Holder:
    try:
        values = json.loads(text)
        names = ("token", "host", "command", "since")
        token, host, command, since = (_printable(str(values[name])) for name in names)
        return Holder(token, host, command, since, bool(values["entering"]))
    except (ValueError, KeyError, TypeError):
        return Holder()


def _printable(text: str) -> str:
    return "".join(character for character in text[:100] if character.isprintable())


def _is_dead(holder: Holder, changed: float, folder: Path) -> bool:
    """Whether a process has ended, or was not heard of for long.

    Args:
        holder: of a file.
        changed: when it was renewed at last, by the clock of the disk.
        folder: where it lies.
    """
    if holder.process and holder.is_here:
        _, pid, started = holder.process
        if not is_alive(pid, started):
            return True
        # Of ours one may be left that could not be removed, e.g. from a full disk.
        return pid == os.getpid() and holder.token not in in_use
    return _age(changed, folder) > STALE_SECONDS


def _age(changed: float, folder: Path) -> float:
    """Seconds since a change in a folder, by the clock of its disk."""
    probe = folder / temporary_name("time")
    handle = os.open(probe, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        os.utime(probe)
        return os.fstat(handle).st_mtime - changed
    finally:
        os.close(handle)
        probe.unlink(missing_ok=True)


def remove(path: Path, holder: Holder) -> None:
    """Remove the lock of this holder and no other."""
    right = path.with_name(f"{REMOVAL}{holder.token or 'unknown'}{path.name}")
    remover = Holder(new_token(), gethostname(), "removal of a lock")
    in_use.add(remover.token)
    try:
        handle = create(right, remover)
        if handle is None:
            living_holder(right)  # takes the right from one who died with it
            return
        try:
            found = _examined(path)
            if found and found[0].token == holder.token:
                path.unlink(missing_ok=True)
        finally:
            os.close(handle)
            right.unlink(missing_ok=True)
    finally:
        in_use.discard(remover.token)


def sweep(folder: Path) -> None:
    """Delete what dead processes left half-written right in a folder."""
    for path in list(folder.glob(f"{TEMPORARY}*")):
        with suppress(OSError):
            writer = Holder(path.name.removeprefix(TEMPORARY))
            ours = writer.process is not None and writer.process[1] == os.getpid()
            if not (ours and writer.is_here) and _is_dead(writer, path.lstat().st_mtime, folder):
                path.unlink()
    for path in list(folder.glob(f"{REMOVAL}*")):
        living_holder(path)
