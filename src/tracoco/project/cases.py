"""Which scans belong together: an image, and its label where there is one."""

import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, Field

from tracoco.errors import UserError
from tracoco.files import content_hash, digest, read_json, write_json
from tracoco.settings import Settings, checked

SAFE_ID = re.compile(r"\w[\w .+@=,()-]*")


AXES = {"sagittal": 0, "coronal": 1, "axial": 2}
"""Names of slices, and the canonical axis that they are counted along."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """Which voxels of a label somebody has drawn; all of them if nothing is said."""

    structures: tuple[int, ...] | None = None
    """Values of the structures that were drawn. Background may be one of the others."""
    slices: str | None = None
    """One of `AXES`: slices without any structure were not drawn."""

    def to_json(self) -> dict[str, Any]:
        """As cases.json has it."""
        return {"structures": self.structures, "slices": self.slices}


ALL_DRAWN = Drawn()


@dataclass(frozen=True, slots=True)
class Case:
    """One scan of the data set; without a label it is unlabelled."""

    id: str
    images: tuple[Path, ...]
    """One file, folder or zip; or several, each with some of the channels, in their order."""
    label: Path | None
    group: str | None = None
    """Whose scan it is, e.g. a patient; cases of one group are never in two parts of a split."""
    drawn: Drawn = ALL_DRAWN
    """What of the label was drawn."""


def unsafe_ids(ids: Iterable[str]) -> list[str]:
    """What is wrong with ids that could not be part of a file's name."""
    return [
        f"case {id_!r} cannot be the name of a file; rename it to letters, digits, '-' and '_'"
        for id_ in ids
        if not SAFE_ID.fullmatch(id_)
    ]


def _safe_id(id_: str) -> str:
    problems = unsafe_ids([id_])
    if problems:
        raise ValueError(problems[0])
    return id_


CaseId = Annotated[str, AfterValidator(_safe_id)]
"""The id of a case in a file, which may come from elsewhere: it becomes the name of other files,
so that one with folders in it would be written anywhere."""


def write_cases(path: Path, cases: Sequence[Case]) -> None:
    """Write cases.json, one entry a case."""
    rows = [
        {
            "id": case.id,
            "images": [str(path) for path in case.images],
            "label": str(case.label) if case.label else None,
            "group": case.group,
            **({} if case.drawn == ALL_DRAWN else {"drawn": case.drawn.to_json()}),
        }
        for case in cases
    ]
    write_json(path, {"cases": rows})


def read_cases(path: Path) -> list[Case]:
    """Read cases.json."""
    rows = checked(_File, read_json(path), str(path)).cases
    return [
        Case(row.id, row.images, row.label, row.group, Drawn(**row.drawn.model_dump()))
        for row in rows
    ]


class _Drawn(Settings):
    structures: tuple[int, ...] | None = None
    slices: Literal["sagittal", "coronal", "axial"] | None = None


class _Row(Settings):
    id: CaseId
    images: tuple[Path, ...] = Field(min_length=1)
    label: Path | None
    group: str | None = None
    drawn: _Drawn = _Drawn()


class _File(Settings):
    cases: tuple[_Row, ...]


DETACHED = {".hdr", ".img", ".mhd", ".nhdr"}
"""Headers whose voxels lie in a file beside them, under the same stem."""
NAMED_FILE = re.compile(rb"(?im)^(?:ElementDataFile *=|data ?file:)([^\r\n]+)$")
LONGEST_HEADER = 2**16
Known = TypeVar("Known")


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
    facts = [(file.name, _status(file)) for file in _files(path)]
    size = sum(at.st_size for _, at in facts)
    last = max((max(at.st_mtime, at.st_ctime) for _, at in facts), default=0.0)
    settled = last + SETTLED_SECONDS < time.time()
    stamp = _stamp_of(facts) if settled and sys.platform != "win32" else ""
    if known and stamp and (known.stamp, known.bytes) == (stamp, size):
        return known
    return ScanContent(size, _content(path), stamp)


def _status(file: Path) -> os.stat_result:
    handle = os.open(file, os.O_RDONLY)
    try:
        return os.fstat(handle)
    finally:
        os.close(handle)


def source_hashes(case: Case) -> dict[str, Any]:
    """Content of the files that a prepared case comes from."""
    return _of_each(case, _content)


def source_stamps(case: Case) -> dict[str, Any]:
    """Size, time and place on the disk of the same files: cheap, and it changes with them."""
    return _of_each(case, _stamp)


def source_bytes(case: Case) -> int:
    """Size of all files together; 0 for those that are gone."""
    paths = {*case.images, case.label} - {None}
    files = [file for path in paths if path and path.exists() for file in _files(path)]
    return sum(file.stat().st_size for file in files)


def _of_each(case: Case, know: Callable[[Path], str]) -> dict[str, Any]:
    images = [_readable(know, path) for path in case.images]
    if case.label is None:
        return {"images": images, "label": None}
    drawn = {} if case.drawn == ALL_DRAWN else {"drawn": digest(case.drawn.to_json())}
    return {"images": images, "label": _readable(know, case.label), **drawn}


def _readable(know: Callable[[Path], Known], path: Path) -> Known:
    try:
        return know(path)
    except OSError as error:
        raise UserError(
            f"{path} cannot be read ({error.strerror}); restore it, or make the project anew"
        ) from error


def _content(path: Path) -> str:
    files = _files(path)
    if files == [path]:
        return content_hash(path)
    return digest([[file.name, content_hash(file)] for file in files])


def _stamp(path: Path) -> str:
    return _stamp_of([(file.name, file.stat()) for file in _files(path)])


def _stamp_of(facts: Sequence[tuple[str, os.stat_result]]) -> str:
    # The inode too: two files that were exchanged keep their times, and often have one size.
    return digest(
        [[name, at.st_size, at.st_mtime_ns, at.st_ctime_ns, at.st_ino] for name, at in facts]
    )


def _files(path: Path) -> list[Path]:
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
