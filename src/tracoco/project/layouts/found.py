"""What a layout makes of a folder: cases, and whatever else the folder says about them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tracoco.project.cases import Case
from tracoco.project.splits import Splits


@dataclass(frozen=True, slots=True)
class Found:
    """The cases of a data set, and what its own files say of them."""

    cases: tuple[Case, ...]
    class_names: Mapping[int, str] = field(default_factory=dict)
    """Name of each label value that the data has a name for."""
    splits: Splits | None = None
    """The parts that the data names itself; None if it leaves them to be drawn."""
    notes: tuple[str, ...] = ()
    """What a person should know of how the files were read."""
    layout: str = ""
    plan: Mapping[str, Any] = field(default_factory=dict)
    """Values of the plan that the data set is known to need, in place of planned ones."""
    watermark: str = ""
    """Stands by every result of the project, if it is not empty."""


@dataclass(frozen=True, slots=True)
class Layout:
    """A way in which people keep scans; a new one is one file and one row of `LAYOUTS`."""

    name: str
    about: str
    recognises: Callable[[Path], bool]
    """Whether a folder looks like it, by names alone."""
    find: Callable[[Path, Path | None], Found]
    """The cases, given the folder and perhaps another folder of labels."""
    takes_labels: bool = False
    """Whether labels may lie in a folder elsewhere."""
