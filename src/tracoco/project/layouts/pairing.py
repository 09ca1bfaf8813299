"""Images and labels with the same name belong together; a number behind it may be a channel's."""

import difflib
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tracoco.errors import UserError, collected, raise_all
from tracoco.project.cases import Case, unsafe_ids
from tracoco.project.splits import Splits
from tracoco.scans.reader import SUFFIXES, has_label, scan_stem, scans_in


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
    ignore: int | None = None
    """The value that the data has for voxels that nobody has drawn."""


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


CHANNEL = re.compile(r"_(\d{4})$")


def pair(
    images: Sequence[Path], labels: Sequence[Path], *, channels: bool | None = None
) -> tuple[Case, ...]:
    """Cases by the stem of their names, sorted; every problem is named at once.

    Args:
        images: an image that holds its label inside needs none beside it.
        labels: at most one an image.
        channels: whether names end in the number of a channel; None to see it from the labels.
    """
    label_of = {stem: paths[0] for stem, paths in _by_stem(labels).items()}
    if channels is None:
        channels = counts_channels([scan_stem(image) for image in images], label_of)
    grouped: dict[str, list[Path]] = defaultdict(list)
    for image in images:
        stem = scan_stem(image)
        grouped[CHANNEL.sub("", stem) if channels else stem].append(image)
    problems = [
        *_several(grouped, "images", channels=channels),
        *_several(_by_stem(labels), "labels", channels=False),
        *_labels_without_image(label_of, grouped),
        *unsafe_ids(grouped),
    ]
    cases = []
    for id_, paths in sorted(grouped.items()):
        with collected(problems):
            label = label_of.get(id_) or label_inside(paths)
            cases.append(Case(id_, tuple(sorted(paths)), label))
    raise_all(problems)
    return tuple(cases)


def counts_channels(stems: Iterable[str], labels: Iterable[str]) -> bool:
    """Whether `_0000` behind a name is a channel's number: no label has it, but its case has one.

    Otherwise it counts scans, as in `scan_0000` and `scan_0001`.
    """
    numbered = {stem for stem in stems if CHANNEL.search(stem)}
    known = set(labels)
    return not numbered & known and any(CHANNEL.sub("", stem) in known for stem in numbered)


def label_inside(images: Sequence[Path]) -> Path | None:
    """The file of an image that holds its label too, as HDF5 files may; no voxel is read."""
    return images[0] if len(images) == 1 and has_label(images[0]) else None


def scans_of(folder: Path) -> list[Path]:
    """All scans of a folder as absolute paths, or what the folder holds in their place."""
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder; give the one that holds the scans")
    scans = [file.absolute() for file in scans_in(folder)]
    if not scans:
        raise UserError(
            f"{folder} holds no scan ({', '.join(SUFFIXES)}, or a DICOM series); "
            f"it holds {contents(folder)}. Put some there"
        )
    return scans


def contents(folder: Path) -> str:
    """The first names in a folder, for a message."""
    names = sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith("."))
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return (", ".join(names[:10]) or "nothing") + more


def first_folder(data: Path, names: Sequence[str]) -> Path | None:
    """The first of several folders that exists."""
    return next((data / name for name in names if (data / name).is_dir()), None)


def _by_stem(files: Iterable[Path]) -> dict[str, list[Path]]:
    grouped = defaultdict(list)
    for file in files:
        grouped[scan_stem(file)].append(file)
    return grouped


def _several(grouped: Mapping[str, Sequence[Path]], what: str, *, channels: bool) -> list[str]:
    """Cases with more files than they should have; a channel in two formats is also too many."""
    problems = []
    for id_, paths in grouped.items():
        if len({scan_stem(path) for path in paths} if channels else {id_}) < len(paths):
            files = ", ".join(map(str, paths))
            problems.append(f"case '{id_}' has several {what}: {files}; keep one of them")
    return problems


def _labels_without_image(labels: Mapping[str, Path], images: Iterable[str]) -> list[str]:
    problems = []
    known = set(images)
    for stem in sorted(set(labels) - known):
        near = difflib.get_close_matches(stem, known, n=1)
        hint = f"the nearest is '{near[0]}'" if near else "none has a name like it"
        problems.append(f"{labels[stem]} has no image '{stem}'; {hint}. Rename or remove it")
    return problems
