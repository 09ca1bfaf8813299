"""HDF5 files as the field passes them on, image and label in one, with lists beside them.

UA-MT's Left Atrium (`ID/mri_norm2.h5`), SSL4MIS's ACDC and BraTS (`data/*.h5`, and slices of ACDC
in `data/slices`), MC-Net's Pancreas (`image*_norm.h5`).
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from tracoco.errors import UserError, collected, raise_all
from tracoco.project.cases import Case, unsafe_ids
from tracoco.project.layouts.pairing import Found, label_inside
from tracoco.project.splits import Splits
from tracoco.scans.reader import HDF5_ENDING, case_name, scan_stem

NAMES = {
    "train": ("train", "train_slices"),
    "validation": ("val", "valid", "validation", "eval"),
    "test": ("test",),
}
SUFFIXES = (".list", ".txt")
SLICE = re.compile(r"_slice_\d+$")


def read_lists(folders: Sequence[Path], cases: Sequence[Case]) -> dict[str, list[str]]:
    """Cases by part, in the order of the lists; empty where no list names a case.

    Args:
        folders: where lists may lie; the first folder with one is taken.
        cases: a list of slices stands for the volumes that they are of, if those are the cases.
    """
    known = {case.id for case in cases}
    for folder in folders:
        lists = {part: _read(folder, names, known) for part, names in NAMES.items()}
        if any(known.intersection(ids) for ids in lists.values()):
            return lists
    return {}


def listed_parts(lists: dict[str, list[str]], cases: Sequence[Case]) -> tuple[Splits, list[str]]:
    """The split that the lists describe, and what has to be said about it."""
    known = {case.id: case for case in cases}
    present = {part: [id_ for id_ in ids if id_ in known] for part, ids in lists.items()}
    training = [known[id_] for id_ in present["train"]]
    if not training:
        raise UserError("the lists beside the data name no training case; add train.list")
    notes = ["the lists beside the data decide the parts, and the order of the training cases"]
    absent = sum(len(ids) for ids in lists.values()) - sum(len(ids) for ids in present.values())
    if absent:
        notes.append(f"the lists name {absent} cases that are not here")
    splits = Splits(
        labelled=tuple(case.id for case in training if case.label),
        unlabelled=tuple(case.id for case in training if not case.label),
        validation=tuple(present["validation"]),
        test=tuple(present["test"]),
    )
    return splits, notes


def _read(folder: Path, names: Sequence[str], known: set[str]) -> list[str]:
    for name in names:
        for suffix in SUFFIXES:
            file = folder / f"{name}{suffix}"
            if file.is_file():
                lines = file.read_text(encoding="utf-8", errors="replace").split("\n")
                ids = [_id(line, known) for line in lines if line.strip()]
                return list(dict.fromkeys(ids))
    return []


def _id(line: str, known: set[str]) -> str:
    """The case of a line, which may be a path: `X`, `X.h5` or `X/mri_norm2.h5`."""
    parts = [part for part in re.split(r"[/\\]", line.strip()) if part]
    named = parts[-2] if len(parts) > 1 and parts[-1].startswith("mri_norm2") else parts[-1]
    id_ = re.sub(r"(_mri_norm2|_norm)?(\.h5|\.hdf5)?$", "", named)
    return id_ if id_ in known else SLICE.sub("", id_)


PLACES = ("*/mri_norm2.h5", "data/*.h5", "*.h5", "data/slices/*.h5")
"""Volumes before slices: a volume is what a result is wanted for."""
DEEPEST = 3
"""Folders between the folder that is given and its files: downloads come in one or two."""
FRAME = re.compile(r"(patient\d+)_frame\d+")
"""ACDC has two scans a patient."""


def recognises(data: Path) -> bool:
    """Whether there are HDF5 files where one of the layouts has them."""
    return any(next(data.glob(place), None) for place in PLACES)


def find(data: Path, _: Path | None) -> Found:
    """One case a file; lists decide the parts and which cases count at all."""
    files = _files(data)
    problems: list[str] = []
    cases = []
    for id_, file in sorted(files.items()):
        with collected(problems):
            frame = FRAME.match(id_)
            cases.append(Case(id_, (file,), label_inside([file]), frame[1] if frame else None))
    raise_all([*problems, *unsafe_ids(files)])
    beside = (data, next(iter(files.values())).parent, data.absolute().parent)
    lists = read_lists(beside, cases)
    if not lists:
        return Found(tuple(cases), notes=("there is no list of cases beside the data",))
    splits, notes = listed_parts(lists, cases)
    listed = tuple(case for case in cases if case.id in splits.ids)
    if len(listed) < len(cases):
        notes.append(f"{len(cases) - len(listed)} cases are in no list and left out")
    return Found(listed, splits=splits, notes=tuple(notes))


def volumes_below(data: Path) -> dict[str, Path]:
    """The HDF5 volumes in the folders below a folder, by case; none if it has no such files.

    Left Atrium has a folder a case, which gives the case its name. Slices of ACDC are parts of
    volumes. Two files of one case are an error.
    """
    found: dict[str, list[Path]] = defaultdict(list)
    for depth in range(1, DEEPEST + 1):
        for file in data.glob(f"{'*/' * depth}*.h5"):
            below = file.relative_to(data).parts
            if "slices" not in below and not any(part.startswith(".") for part in below):
                found[case_name(file)].append(file)
    twice = [
        f"{data} has case '{case}' more than once: {', '.join(map(str, sorted(files)))}; keep one"
        for case, files in sorted(found.items())
        if len(files) > 1
    ]
    raise_all([*twice, *unsafe_ids(found)])
    return {case: files[0] for case, files in sorted(found.items())}


def _files(data: Path) -> dict[str, Path]:
    for place in PLACES:
        files = [file.absolute() for file in data.glob(place) if not file.name.startswith(".")]
        if files:
            break
    in_folders = place.startswith("*/")
    return {
        file.parent.name if in_folders else HDF5_ENDING.sub("", scan_stem(file)): file
        for file in files
    }
