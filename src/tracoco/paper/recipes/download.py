"""What lies in a download, under the names that the case lists have."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tracoco.errors import raise_all
from tracoco.paper.case_lists import listed_name
from tracoco.project.cases import Case
from tracoco.scans.reader import has_label, scan_stem


@dataclass(frozen=True, slots=True)
class Download:
    """The scans of a data set in one of the forms that it is passed on in."""

    form: str
    """In words, e.g. "folders of NRRD files"."""
    cases: tuple[Case, ...]
    plan: Mapping[str, Any] = field(default_factory=dict)
    """Values of the plan that the paper decides, not the data."""
    notes: tuple[str, ...] = ()
    cropped: bool = False
    """Whether someone has cropped the scans around their labels already."""
    whole: bool = False
    """Whether all structures of a label are to be taken as one."""


def community_files(data: Path, plan: Mapping[str, Any], *, cropped: bool) -> Download:
    """The HDF5 files that the field passes on: image and label in one, without a spacing.

    Left Atrium has a folder a case, the others a file; slices of ACDC are parts of its volumes.
    """
    files = (file for file in data.rglob("*.h5") if file.parent.name != "slices")
    found = one_each(files, _community_name)
    cases = tuple(
        Case(name, (file,), file if has_label(file) else None) for name, file in found.items()
    )
    note = (
        "HDF5 files say nothing of the spacing: voxels count as 1 mm, so distances in mm are "
        "distances in voxels"
    )
    return Download("the community's HDF5 files", cases, plan, (note,), cropped=cropped)


def one_each(paths: Iterable[Path], name_of: Callable[[Path], str | None]) -> dict[str, Path]:
    """Paths by name, sorted; two of one name are an error, one without a name is left out."""
    found: dict[str, list[Path]] = defaultdict(list)
    for path in paths:
        name = name_of(path)
        if name is not None and not path.name.startswith("."):
            found[name].append(path.absolute())
    raise_all(
        [
            f"{name} is there more than once: {', '.join(map(str, sorted(copies)))}; keep one"
            for name, copies in sorted(found.items())
            if len(copies) > 1
        ]
    )
    return {name: paths[0] for name, paths in sorted(found.items())}


def existing(path: Path) -> Path | None:
    """The path, if there is such a file."""
    return path if path.is_file() else None


def _community_name(file: Path) -> str:
    return file.parent.name if file.stem == "mri_norm2" else listed_name(scan_stem(file))
