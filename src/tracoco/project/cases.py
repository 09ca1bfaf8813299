"""Which scans belong together: an image, and its label where there is one."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from tracoco.config import Settings, checked
from tracoco.files import read_json, write_json

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
