"""Which scans belong together: an image, and its label where there is one."""

import difflib
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from tracoco.config import Settings, checked
from tracoco.errors import UserError, raise_all
from tracoco.files import read_json, write_json
from tracoco.project.problems import collected
from tracoco.scans.reader import SUFFIXES, scan_stem, scans_in

IMAGE_FOLDERS = ("images", "imagesTr")
LABEL_FOLDERS = ("labels", "labelsTr")
FIRST_CHANNEL = "_0000"
OTHER_CHANNEL = re.compile(r"_(?!0000$)\d{4}$")
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


def find_cases(data: Path, labels: Path | None = None) -> list[Case]:
    """Pair the images and labels below `data` by the stem of their names.

    Args:
        data: holds `images` and `labels`, or `imagesTr` and `labelsTr`.
        labels: a folder of labels to use instead.
    """
    if not data.is_dir():
        raise UserError(f"{data} is not a folder; give the folder that holds images/ and labels/")
    problems: list[str] = []
    image_files, label_files = [], []
    with collected(problems):
        image_files = _scans_in(_choose_folder(data, IMAGE_FOLDERS))
    with collected(problems):
        label_files = _scans_in(labels or _choose_folder(data, LABEL_FOLDERS))
    raise_all(problems)
    label_of = {stem: paths[0] for stem, paths in _by_stem(label_files).items()}
    images = _by_id(image_files, label_of)
    raise_all(
        [
            *_duplicates(images, "images"),
            *_duplicates(_by_stem(label_files), "labels"),
            *_channel_files(image_files, label_of),
            *_labels_without_image(label_of, images),
            *unsafe_ids(images),
        ]
    )
    return [Case(id_, (paths[0],), label_of.get(id_)) for id_, paths in sorted(images.items())]


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


def _choose_folder(data: Path, names: tuple[str, ...]) -> Path:
    for name in names:
        if (data / name).is_dir():
            return data / name
    found = ", ".join(sorted(entry.name for entry in data.iterdir())[:10]) or "nothing"
    wanted = " or ".join(f"{name}/" for name in names)
    raise UserError(f"{data} has no folder {wanted}; it holds {found}. Put the scans into one")


def _scans_in(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder; give the one that holds the label maps")
    scans = [file.absolute() for file in scans_in(folder)]
    if not scans:
        found = ", ".join(sorted(file.name for file in folder.iterdir())[:5]) or "nothing"
        raise UserError(
            f"{folder} holds no scan ({', '.join(SUFFIXES)}); it holds {found}. Put some there"
        )
    return scans


def _by_stem(files: Iterable[Path]) -> dict[str, list[Path]]:
    grouped = defaultdict(list)
    for file in files:
        grouped[scan_stem(file)].append(file)
    return grouped


def _by_id(images: Iterable[Path], labels: Mapping[str, Path]) -> dict[str, list[Path]]:
    """Images by case; `_0000` is a channel's number unless a label has it in its name too."""
    grouped = defaultdict(list)
    for image in images:
        stem = scan_stem(image)
        grouped[stem if stem in labels else stem.removesuffix(FIRST_CHANNEL)].append(image)
    return grouped


def _duplicates(grouped: Mapping[str, Sequence[Path]], what: str) -> list[str]:
    return [
        f"case '{id_}' has several {what}: {', '.join(map(str, paths))}; keep one of them"
        for id_, paths in grouped.items()
        if len(paths) > 1
    ]


def _channel_files(images: Iterable[Path], labels: Mapping[str, Path]) -> list[str]:
    problems = []
    for image in images:
        stem = scan_stem(image)
        case = OTHER_CHANNEL.sub("", stem)
        if stem not in labels and case != stem and case in labels:
            problems.append(
                f"{image} is a further channel of case '{case}'; "
                "store the channels of a case in one 4D file"
            )
    return problems


def _labels_without_image(labels: Mapping[str, Path], images: Iterable[str]) -> list[str]:
    problems = []
    known = set(images)
    for stem in sorted(set(labels) - known):
        near = difflib.get_close_matches(stem, known, n=1)
        hint = f"the nearest is '{near[0]}'" if near else "none has a name like it"
        problems.append(f"{labels[stem]} has no image '{stem}'; {hint}. Rename or remove it")
    return problems
