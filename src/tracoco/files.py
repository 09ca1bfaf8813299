"""Files that are either the old one or the whole new one, never half of it, and what they hold.

Digests tell whether it is still the same, those of the several files of a scan too.
"""

import hashlib
import json
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracoco.errors import UserError, full_disk_named
from tracoco.lock import check_held
from tracoco.lock_file import temporary_name


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Give a temporary path beside `path`; rename it into place once its content is on disk.

    The temporary file is there already and empty, made exclusively under a name that nobody can
    foresee: whatever was put in that folder, nothing is written through a link. The suffix is
    kept, since several writers choose their format by it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(temporary_name(path.name))
    try:
        with full_disk_named(path):
            os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
            yield temporary
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
            check_held(path)
            temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Replace `path` by `text`."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """Replace `path` by `value`, indented for a reader."""
    write_text(path, json.dumps(value, indent=2) + "\n")


def read_json(path: Path) -> Any:
    """Read JSON, or say which file is missing or broken."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path} does not exist") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not valid JSON ({error}); restore or delete it") from error


def content_hash(path: Path) -> str:
    """SHA-256 of a file's content, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest(value: Any) -> str:
    """SHA-256 of a value's JSON, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def array_digest(array: NDArray[Any]) -> str:
    """SHA-256 of an array's shape and numbers."""
    known = hashlib.sha256(str(array.shape).encode())
    known.update(np.ascontiguousarray(array).data)
    return known.hexdigest()


DETACHED = {".hdr", ".img", ".mhd", ".nhdr"}
"""Headers whose voxels lie in a file beside them, under the same stem."""
NAMED_FILE = re.compile(rb"(?im)^(?:ElementDataFile *=|data ?file:)([^\r\n]+)$")
LONGEST_HEADER = 2**16


@dataclass(frozen=True, slots=True)
class ScanContent:
    """What a scan consisted of when it was read."""

    bytes: int
    """Of all its files."""
    sha256: str
    """Of its file; of several, the digest of their names and hashes in the order of the names."""
    stamp: str = field(default="", compare=False)
    """Changes with size and times of its files; empty where it could not tell a later change."""


SETTLED_SECONDS = 10.0
"""A file that changed more recently may change again without another time, on a coarse clock."""


def scan_content(path: Path, known: ScanContent | None = None) -> ScanContent:
    """The content of a scan: all files of a series, and a header with its data file.

    What is known is believed, and nothing read, where no file has changed by its stamp: size, time
    of the content, place on the disk, and time of the last change of any of these. Nobody can set
    the last one, so that a file of another content is noticed though it has the same size and was
    given the old time, as by `cp -p` or `rsync -t`. A stamp is kept only of files that were left
    alone for `SETTLED_SECONDS`, and is taken of opened files, of which a network disk tells the
    truth. It is a hint for one place alone: in a copy, everything is read.
    """
    facts = [(file.name, _status(file)) for file in scan_files(path)]
    size = sum(at.st_size for _, at in facts)
    last = max((max(at.st_mtime, at.st_ctime) for _, at in facts), default=0.0)
    settled = last + SETTLED_SECONDS < time.time()
    stamp = _combined(facts) if settled and sys.platform != "win32" else ""
    if known and stamp and (known.stamp, known.bytes) == (stamp, size):
        return known
    return ScanContent(size, content_of(path), stamp)


def _status(file: Path) -> os.stat_result:
    handle = os.open(file, os.O_RDONLY)
    try:
        return os.fstat(handle)
    finally:
        os.close(handle)


def content_of(path: Path) -> str:
    """SHA-256 of a scan's file; of several, of their names and hashes."""
    files = scan_files(path)
    if files == [path]:
        return content_hash(path)
    return digest([[file.name, content_hash(file)] for file in files])


def stamp_of(path: Path) -> str:
    """Size, time and place on the disk of a scan's files: cheap, and it changes with them."""
    return _combined([(file.name, file.stat()) for file in scan_files(path)])


def _combined(facts: Sequence[tuple[str, os.stat_result]]) -> str:
    # The inode too: two files that were exchanged keep their times, and often have one size.
    return digest(
        [[name, at.st_size, at.st_mtime_ns, at.st_ctime_ns, at.st_ino] for name, at in facts]
    )


def scan_files(path: Path) -> list[Path]:
    """The file itself; with it its other half; or all files of a series."""
    if path.is_dir():
        return sorted(file for file in path.rglob("*") if file.is_file())
    if path.suffix.lower() in DETACHED:
        beside = (file for file in path.parent.iterdir() if file.is_file())
        halves = {file for file in beside if file.name.startswith(f"{path.stem}.")}
        return sorted({path, *halves, *_named_file(path)})
    return [path]


def _named_file(header: Path) -> list[Path]:
    """The data file that a header names, which may have another stem."""
    with header.open("rb") as file:
        found = NAMED_FILE.search(file.read(LONGEST_HEADER))
    named = header.parent / found[1].decode(errors="surrogateescape").strip() if found else header
    return [named] if named.is_file() else []
