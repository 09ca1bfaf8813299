"""One change of a project at a time: who comes second is told so, and loses nothing."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tracoco.errors import UserError
from tracoco.project.commit import remove_abandoned

LOCK = ".tracoco-lock"
TAKEN = (errno.EAGAIN, errno.EACCES)


@contextmanager
def only_writer(root: Path) -> Iterator[None]:
    """Be the only one who changes a project, from what is read of it to what is written.

    The system gives the lock back when its owner ends, however that comes about. The file stays:
    whoever removed it would take the lock away from one who has just opened it.
    """
    handle = os.open(root / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if not _lock(handle):
            raise UserError(
                f"another update of {root} is under way; wait for its end, then run this one again"
            )
        remove_abandoned(root)
        yield
    finally:
        os.close(handle)


def _lock(handle: int) -> bool:
    """Whether the lock is ours; it always is where a system or its disk has none."""
    try:
        import fcntl  # noqa: PLC0415 - Windows has no such module
    except ImportError:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in TAKEN
    return True
