"""Which scans belong together: an image, and its label where there is one."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import Field

from tracoco.errors import UserError
from tracoco.files import content_hash, digest, read_json, write_json
from tracoco.settings import Settings, checked

SAFE_ID = re.compile(r"\w[\w .+@=,()-]*")


@dataclass(frozen=True, slots=True)
class Case:
    """One scan of the data set; without a label it is unlabelled."""

    id: str
    images: tuple[Path, ...]
    """One file, folder or zip; or several, each with some of the channels, in their order."""
    label: Path | None
    group: str | None = None
    """Whose scan it is, e.g. a patient; cases of one group are never in two parts of a split."""


def unsafe_ids(ids: Iterable[str]) -> list[str]:
    """What is wrong with ids that could not be part of a file's name."""
    return [
        f"case '{id_}' cannot be the name of a file; rename it to letters, digits, '-' and '_'"
        for id_ in ids
        if not SAFE_ID.fullmatch(id_)
    ]


def write_cases(path: Path, cases: Sequence[Case]) -> None:
    """Write cases.json, one entry a case."""
    rows = [
        {
            "id": case.id,
            "images": [str(path) for path in case.images],
            "label": str(case.label) if case.label else None,
            "group": case.group,
        }
        for case in cases
    ]
    write_json(path, {"cases": rows})


def read_cases(path: Path) -> list[Case]:
    """Read cases.json."""
    rows = checked(_File, read_json(path), str(path)).cases
    return [Case(row.id, row.images, row.label, row.group) for row in rows]


class _Row(Settings):
    id: str
    images: tuple[Path, ...] = Field(min_length=1)
    label: Path | None
    group: str | None = None


class _File(Settings):
    cases: tuple[_Row, ...]


DETACHED = {".hdr", ".img", ".mhd", ".nhdr"}
"""Headers whose voxels lie in a file beside them, under the same stem."""
Known = TypeVar("Known")


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
    return {"images": images, "label": _readable(know, case.label) if case.label else None}


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
    facts = [(file.name, file.stat()) for file in _files(path)]
    # The inode too: two files that were exchanged keep their times, and often have one size.
    return digest([[name, at.st_size, at.st_mtime_ns, at.st_ino] for name, at in facts])


def _files(path: Path) -> list[Path]:
    """The file itself; with it its other half; or all files of a series."""
    if path.is_dir():
        return sorted(file for file in path.rglob("*") if file.is_file())
    if path.suffix.lower() in DETACHED:
        beside = (file for file in path.parent.iterdir() if file.is_file())
        return sorted({path, *(file for file in beside if file.name.startswith(f"{path.stem}."))})
    return [path]
