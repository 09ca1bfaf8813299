"""Who has a run in hand: a lock on a file, which workers on every machine with that disk see."""

import errno
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, Literal

from tracoco.console import say
from tracoco.errors import UserError

if sys.platform != "win32":
    import fcntl

NO_LOCKS = {errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}
"""What disks answer that cannot lock."""


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
