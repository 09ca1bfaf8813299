"""The lists that lie beside the community's files: which case is for what, and in which order."""

import re
from collections.abc import Sequence
from pathlib import Path

from tracoco.errors import UserError
from tracoco.project.cases import Case
from tracoco.project.splits import Splits

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
