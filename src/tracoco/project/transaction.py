"""Several files of a project replaced together: whatever happens, all are new or all are old.

New files are written into a folder of their own. Once they are on the disk it gets the name by
which everybody knows it, and with this one step the change is made: whoever opens the project next
moves the files to their places, should the one who wrote them have died before.

One process at a time may change a project (`tracoco.lock`).
"""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import copymode, rmtree
from tempfile import mkdtemp
from typing import TypeVar

from tracoco.errors import UserError

UNFINISHED, DECIDED = ".tracoco-new", ".tracoco-decided"
"""How the names of folders begin that are written into, and the name that such a one gets."""
Read = TypeVar("Read")


@contextmanager
def replaced_together(root: Path) -> Iterator[Path]:
    """A folder to write the new files into; they take the places of the old ones at the end."""
    finish_replacing(root)
    root.mkdir(parents=True, exist_ok=True)
    new = Path(mkdtemp(prefix=UNFINISHED, dir=root))
    copymode(root, new)  # others may have to move the files, and would not be let in
    try:
        yield new
        _flush(new)
        new.replace(root / DECIDED)
    except BaseException:
        rmtree(new, ignore_errors=True)
        raise
    _flush(root)
    finish_replacing(root)


def finish_replacing(root: Path) -> None:
    """Move files that were decided on to their places; several processes may do so at a time."""
    decided = root / DECIDED
    if not decided.is_dir():
        return
    try:
        with suppress(FileNotFoundError):  # another process came first
            for file in list(decided.iterdir()):
                with suppress(FileNotFoundError):
                    file.replace(root / file.name)
            decided.rmdir()
    except OSError as error:
        raise UserError(
            f"the new files in {decided} cannot be put in place ({error.strerror}); "
            f"let its owner run `tracoco plan {root}`, which does so"
        ) from error


def remove_abandoned(root: Path) -> None:
    """Remove files that were never decided on: their writer was killed.

    Whoever calls this has the lock of the project, so that nobody is filling such a folder now.
    """
    for folder in root.glob(f"{UNFINISHED}*"):
        rmtree(folder, ignore_errors=True)


def take_back(root: Path, files: Iterable[Path]) -> None:
    """Remove what was decided on, and the files that are in place: none was there before."""
    rmtree(root / DECIDED, ignore_errors=True)
    for file in files:
        file.unlink(missing_ok=True)


def read_together(root: Path, marker: Path, read: Callable[[], Read]) -> Read:
    """What `read` makes of several files, none of which was replaced meanwhile.

    Every replacement has the marker among its files.
    """
    while True:
        finish_replacing(root)
        before = marker.stat()
        value = read()
        after = marker.stat()
        same = (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
        if same and not (root / DECIDED).exists():
            return value


def _flush(folder: Path) -> None:
    """Have the names in a folder on the disk, as its files are; not every system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
