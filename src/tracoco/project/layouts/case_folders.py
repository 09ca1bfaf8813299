"""One folder a case: images and their label side by side, told apart by their names."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tracoco.errors import UserError, collected, raise_all
from tracoco.project.cases import Case, unsafe_ids
from tracoco.project.layouts.pairing import Found, label_inside
from tracoco.scans.reader import SEGMENTATION, SUFFIXES, is_scan, scan_stem, scans_in

SEPARATORS = "_. -"
# Whole words between separators, so that `weight` has no `gt` in it and `masked` is an image.
LABEL_WORD = re.compile(
    r"([a-z]*(seg|label|mask)s?|[a-z]*segmentations?|labelmap|gt|(ground)?truth|laendo)\d*",
    re.IGNORECASE,
)


def is_label(path: Path) -> bool:
    """Whether a file is a label: `X_seg`, `X.seg.nrrd`, `X-mask`, `X_gt`, `laendo` of LA 2018."""
    if path.name.lower().endswith(SEGMENTATION):
        return True
    words = re.split(f"[{SEPARATORS}]", scan_stem(path))
    return any(LABEL_WORD.fullmatch(word) for word in words)


def names_image(label: Path, image: Path) -> bool:
    """Whether a label's name is the image's and a word for labels, e.g. `X` and `X_gt`.

    A segmentation of 3D Slicer needs no such word.
    """
    stem, of_image = scan_stem(label), scan_stem(image)
    if label != image and stem == of_image:
        return is_label(label)
    ending = stem.removeprefix(of_image).strip(SEPARATORS)
    return stem.startswith(of_image) and LABEL_WORD.fullmatch(ending) is not None


def is_all_times(path: Path) -> bool:
    """Whether a file holds all times of a beating heart, as ACDC has it beside its two frames."""
    return scan_stem(path).lower().endswith("_4d")


DEEPEST = 3
Folders = Mapping[Path, Sequence[Path]]


def recognises(data: Path) -> bool:
    """Whether the folder, or one somewhat below, holds a scan."""
    return next(_with_files(data, DEEPEST), None) is not None


def find(data: Path, _: Path | None) -> Found:
    """A case a folder, its images as channels; or a case an image, where labels name theirs."""
    folders = {folder: scans_in(folder) for folder in _with_files(data.absolute(), DEEPEST)}
    folders |= {series: [series] for series in _series_beside(folders, data.absolute())}
    apart = any(_named(scan, scans) for scans in folders.values() for scan in scans)
    problems: list[str] = []
    cases: list[Case] = []
    for folder, scans in folders.items():
        with collected(problems):
            if apart:
                cases += _cases_of(folder, scans, is_root=folder == data.absolute())
            else:
                cases.append(_one_case(folder, scans))
    counts = Counter(case.id for case in cases)
    problems += [f"case '{id_}' is there {n} times; rename" for id_, n in counts.items() if n > 1]
    problems += unsafe_ids(counts)
    notes = _times_note(folders) if apart else _channels_note(cases, problems)
    raise_all(problems)
    if len({case.group for case in cases}) == len(cases):  # groups of one tell nothing
        cases = [replace(case, group=None) for case in cases]
    return Found(tuple(sorted(cases, key=lambda case: case.id)), notes=tuple(notes))


def _with_files(folder: Path, depth: int) -> Iterator[Path]:
    """The folders that hold scans as files, by names alone; a case folder has none below it."""
    entries = sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))
    if any(entry.name.lower().endswith(SUFFIXES) and entry.is_file() for entry in entries):
        yield folder
    elif depth:
        for entry in entries:
            if entry.is_dir():
                yield from _with_files(entry, depth - 1)


def _series_beside(folders: Folders, data: Path) -> Iterator[Path]:
    """Series without a label, beside the folders of other cases, nowhere outside of `data`."""
    for parent in sorted({folder.parent for folder in folders if folder != data}):
        for entry in sorted(parent.iterdir()):
            below = any(folder.is_relative_to(entry) for folder in folders)
            if entry.is_dir() and not below and is_scan(entry):
                yield entry


def _one_case(folder: Path, scans: Sequence[Path]) -> Case:
    labels = [scan for scan in scans if is_label(scan)]
    images = tuple(scan for scan in scans if scan not in labels)
    if len(labels) > 1:
        names = ", ".join(label.name for label in labels)
        raise UserError(f"{folder} has several labels: {names}; keep one, or name it in a CSV")
    if not images:
        raise UserError(f"{folder} has the label {labels[0].name} but no image; add it")
    return Case(folder.name, images, labels[0] if labels else label_inside(images))


def _cases_of(folder: Path, scans: Sequence[Path], *, is_root: bool) -> list[Case]:
    """A case an image; those of one folder are one group."""
    images = [scan for scan in scans if not is_label(scan) and not is_all_times(scan)]
    cases = []
    for image in images:
        label = next((scan for scan in scans if names_image(scan, image)), label_inside([image]))
        stem = scan_stem(image)
        if not is_root and folder.name not in stem:
            stem = folder.name if len(images) == 1 else f"{folder.name}-{stem}"
        cases.append(Case(stem, (image,), label, None if is_root else folder.name))
    return cases


def _named(label: Path, scans: Sequence[Path]) -> bool:
    return any(names_image(label, image) for image in scans)


def _times_note(folders: Folders) -> list[str]:
    passed = sum(is_all_times(scan) for scans in folders.values() for scan in scans)
    return [f"{passed} files that end in _4d are passed over: all times of a scan"] * bool(passed)


def _channels_note(cases: Sequence[Case], problems: list[str]) -> list[str]:
    """Which images are the channels; a case with others than most have is a problem."""
    if all(len(case.images) == 1 for case in cases):
        return []
    names = {case.id: tuple(_channel(case.id, image) for image in case.images) for case in cases}
    usual = Counter(names.values()).most_common(1)[0][0]
    problems += [
        f"case '{id_}' has the images {', '.join(found)}; most cases have {', '.join(usual)}. "
        "Give all the same, or take it out"
        for id_, found in names.items()
        if found != usual
    ]
    return [f"channels, in this order: {', '.join(usual)}"]


def _channel(id_: str, image: Path) -> str:
    stem = scan_stem(image)
    return stem.removeprefix(id_).strip("_.- ") or stem
