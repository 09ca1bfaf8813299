"""A data set of the paper found in a download: its cases, its split and its plan."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracoco.errors import UserError, did_you_mean
from tracoco.paper.case_lists import PARTS, case_list
from tracoco.paper.recipes import acdc, brats19, la, pancreas
from tracoco.paper.recipes.download import Download
from tracoco.paper.recipes.label_crop import LabelCrop
from tracoco.project.cases import Case
from tracoco.project.splits import Splits

CROPPED = "scans were cropped around the truth, test scans too"
SHOWN = 5
"""Names that a message lists before it counts the rest."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """All that makes a project of the paper's data set."""

    cases: tuple[Case, ...]
    splits: Splits
    """By the field's lists, in their order: labelled are the first ones."""
    class_names: Mapping[int, str]
    """Name of each label value."""
    plan: Mapping[str, Any]
    """Values of the plan that are the paper's rather than the data's."""
    notes: tuple[str, ...]
    watermark: str
    """What every result must say of the data; empty where there is nothing to be said."""
    whole: bool = False
    """Whether all structures of a label are one: `write_scans` makes such labels."""
    label_crop: LabelCrop | None = None
    """How the field crops these scans around their labels, where it does."""


@dataclass(frozen=True, slots=True)
class _DataSet:
    find: Callable[[Path], Download]
    class_names: Mapping[int, str]
    label_crop: LabelCrop | None = None
    withdrawn: frozenset[str] = frozenset()
    """Cases of the lists that are no longer to be had, so that nobody is told to get them."""


RECIPES = {
    "la": _DataSet(la.find, la.CLASS_NAMES, la.LABEL_CROP),
    "pancreas": _DataSet(pancreas.find, {1: "pancreas"}, pancreas.LABEL_CROP, pancreas.WITHDRAWN),
    "brats19": _DataSet(brats19.find, {1: "whole tumour"}),
    "acdc": _DataSet(acdc.find, {1: "RV", 2: "Myo", 3: "LV"}),
}


def apply_recipe(name: str, data: Path, *, partial: bool = False) -> Recipe:
    """Find a data set of the paper below a folder; names decide, no voxel is read.

    Args:
        name: la, pancreas, brats19 or acdc.
        data: what was downloaded, as it was unpacked, or a folder around it.
        partial: accept a part of the data set; its results say so.
    """
    if name not in RECIPES:
        raise UserError(f"there is no recipe '{name}'; {did_you_mean(name, RECIPES)}")
    if not data.is_dir():
        raise UserError(f"{data} is not a folder; give the one that {name} was unpacked into")
    recipe = RECIPES[name]
    download = recipe.find(data)
    listed = [id_ for part in PARTS for id_ in case_list(name, part)]
    found = {case.id: case for case in download.cases}
    missing = [id_ for id_ in listed if id_ not in found]
    part_only = not set(missing) <= recipe.withdrawn
    kept = tuple(found[id_] for id_ in sorted(set(listed) & found.keys()))
    if not kept or (part_only and not partial):
        raise _incomplete(name, data, download, missing, len(listed))
    short = f"not the paper's data: {len(kept)} of its {len(listed)} scans" if part_only else ""
    marks = (short, CROPPED if download.cropped else "")
    return Recipe(
        kept,
        _split(name, kept),
        recipe.class_names,
        {"normalisation": "range", **download.plan},  # as the paper's release scales them
        (f"{name}: {len(kept)} scans, {download.form}", *download.notes, *_left_out(found, listed)),
        "; ".join(mark for mark in marks if mark),
        download.whole,
        None if download.cropped else recipe.label_crop,
    )


def _split(name: str, cases: Sequence[Case]) -> Splits:
    """The lists in their order, as far as the cases are there."""
    known = {case.id: case for case in cases}
    training, validation, test = ([i for i in case_list(name, p) if i in known] for p in PARTS)
    unlabelled = {case.id for case in cases if case.label is None}
    lost = sorted(unlabelled.intersection((*validation, *test)))
    if lost:
        raise UserError(
            f"{_some(lost)} of {name} have no label, but are there to validate or test with; "
            "unpack the labels into the same folder"
        )
    return Splits(
        labelled=tuple(id_ for id_ in training if id_ not in unlabelled),
        unlabelled=tuple(id_ for id_ in training if id_ in unlabelled),
        validation=tuple(validation),
        test=tuple(test),
    )


def _left_out(found: Collection[str], listed: Collection[str]) -> list[str]:
    others = sorted(set(found) - set(listed))
    return [f"left out, because the paper does not use them: {_some(others)}"] if others else []


def _incomplete(
    name: str, data: Path, download: Download, missing: Sequence[str], count: int
) -> UserError:
    if not download.cases:
        forms = "the files as they are downloaded, or the community's HDF5 files"
        return UserError(f"{data} holds no scan of {name}; give the folder with {forms}")
    others = _some(sorted(case.id for case in download.cases))
    if len(missing) == count:
        return UserError(
            f"{data} holds {others} ({download.form}), none of which is in the lists of {name}; "
            "check that it is this data set, and that the names are as downloaded"
        )
    return UserError(
        f"{data} has {count - len(missing)} of the {count} scans of {name} ({download.form}); "
        f"missing: {_some(missing)}. Get them, or give --partial: the results will then say "
        "that they are not on the paper's data"
    )


def _some(names: Collection[str]) -> str:
    shown = ", ".join(list(names)[:SHOWN])
    return f"{shown} and {len(names) - SHOWN} more" if len(names) > SHOWN else shown
