"""Where a project comes from: the data, how it was understood, and what was said about it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import Field

from tracoco.config import Settings, checked
from tracoco.files import read_json, write_json


@dataclass(frozen=True, slots=True)
class Origin:
    """What cannot be seen from the cases any more."""

    layout: str = ""
    """How the files were paired; empty in projects that do not know."""
    group_pattern: str | None = None
    notes: tuple[str, ...] = ()
    watermark: str = ""
    """Stands by every result of the project, if it is not empty."""
    plan: Mapping[str, Any] = field(default_factory=dict)
    """Values of the plan that are known of the data set, in place of planned ones."""


def write_origin(path: Path, origin: Origin) -> None:
    """Write origin.json."""
    write_json(path, asdict(origin))


def read_origin(path: Path) -> Origin:
    """Read origin.json; older projects have none."""
    if not path.is_file():
        return Origin()
    return Origin(**checked(_File, read_json(path), str(path)).model_dump())


class _File(Settings):
    layout: str = ""
    group_pattern: str | None = None
    notes: tuple[str, ...] = ()
    watermark: str = ""
    plan: dict[str, Any] = Field(default_factory=dict)
