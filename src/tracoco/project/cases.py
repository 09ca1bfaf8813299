"""Which scans belong together: an image, and its label where there is one."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from tracoco.errors import UserError
from tracoco.files import content_of, digest, read_json, scan_files, stamp_of, write_json
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


@dataclass(frozen=True, slots=True)
class Sources:
    """What the files of a case are known by: their content, or a stamp that changes with it."""

    images: tuple[str, ...]
    label: str | None = None
    drawn: str | None = None
    """Hash of what of the label was drawn, if that is not all of it."""

    def to_json(self) -> dict[str, Any]:
        """As the facts of a prepared case have it."""
        drawn = {} if self.drawn is None else {"drawn": self.drawn}
        return {"images": list(self.images), "label": self.label, **drawn}


@dataclass(frozen=True, slots=True)
class CaseOrigin:
    """What a prepared case was made of."""

    id: str
    plan: str
    """Hash of the plan."""
    sources: Sources
    """Content of its files."""
    stamps: Sources
    """Their size, time and place on the disk."""


def source_hashes(case: Case) -> Sources:
    """Content of the files that a prepared case comes from."""
    return _of_each(case, content_of)


def source_stamps(case: Case) -> Sources:
    """Size, time and place on the disk of the same files: cheap, and it changes with them."""
    return _of_each(case, stamp_of)


def source_bytes(case: Case) -> int:
    """Size of all files together; 0 for those that are gone."""
    paths = {*case.images, case.label} - {None}
    files = [file for path in paths if path and path.exists() for file in scan_files(path)]
    return sum(file.stat().st_size for file in files)


def _of_each(case: Case, know: Callable[[Path], str]) -> Sources:
    images = tuple(_readable(know, path) for path in case.images)
    if case.label is None:
        return Sources(images)
    drawn = None if case.drawn == ALL_DRAWN else digest(case.drawn.to_json())
    return Sources(images, _readable(know, case.label), drawn)


def _readable(know: Callable[[Path], str], path: Path) -> str:
    try:
        return know(path)
    except OSError as error:
        raise UserError(
            f"{path} cannot be read ({error.strerror}); restore it, or make the project anew"
        ) from error
