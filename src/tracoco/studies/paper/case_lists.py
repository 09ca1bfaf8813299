"""The case lists of the paper's four data sets, in the order in which the field takes labels."""

import re
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Literal

from tracoco.errors import UserError, did_you_mean, raise_all
from tracoco.project.cases import Case
from tracoco.project.splits import Splits

Part = Literal["train", "validation", "test"]
PARTS: tuple[Part, ...] = ("train", "validation", "test")
DATASETS = ("la", "pancreas", "brats19", "acdc")
FRAMES_A_PATIENT = 2
"""ACDC counts patients; each has a scan at the end of diastole and one at the end of systole."""

# What the files that are passed around have behind the name of the case.
_ENDING = re.compile(r"(_mri_norm2|_norm)$")


def case_list(dataset: str, part: Part) -> list[str]:
    """The cases of one part in the list's order; LA and Pancreas have no validation cases."""
    if dataset not in DATASETS:
        raise UserError(
            f"'{dataset}' is none of the paper's data sets; {did_you_mean(dataset, DATASETS)}"
        )
    return list(_read(dataset, part))


def recognise(ids_train: Sequence[str], ids_test: Sequence[str]) -> str | None:
    """Which data set a project is, or None where any case is of no list or on the wrong side.

    Args:
        ids_train: all cases but those of the test: labelled, unlabelled and validation.
        ids_test: the test cases; there may be none.
    """
    if not ids_train:
        return None
    for dataset in DATASETS:
        train = {*_read(dataset, "train"), *_read(dataset, "validation")}
        test = set(_read(dataset, "test"))
        if train.issuperset(map(listed_name, ids_train)) and test.issuperset(
            map(listed_name, ids_test)
        ):
            return dataset
    return None


def ordered(dataset: str, ids: Sequence[str]) -> list[str]:
    """A project's cases in the order of the list, so that the first N are the paper's N."""
    names = [name for part in PARTS for name in case_list(dataset, part)]
    place = {name: index for index, name in enumerate(names)}
    unknown = [id_ for id_ in ids if listed_name(id_) not in place]
    if unknown:
        raise UserError(
            f"case '{unknown[0]}' is in no list of '{dataset}'; "
            f"a case there is called '{names[0]}', for example"
        )
    return sorted(ids, key=lambda id_: place[listed_name(id_)])


def listed_splits(dataset: str, cases: Sequence[Case]) -> Splits:
    """The paper's split of its data set: the lists decide, and their order is kept.

    A training case without a label is unlabelled; how many labels a run may use is its own choice.
    """
    ids = {listed_name(case.id): case for case in cases}
    parts = {part: case_list(dataset, part) for part in PARTS}
    known = {name for names in parts.values() for name in names}
    problems = [f"case '{ids[name].id}' is in no list of {dataset}" for name in ids.keys() - known]
    problems += [
        f"the lists of {dataset} have '{name}', but the data has not" for name in known - ids.keys()
    ]
    raise_all(sorted(problems))
    training = [ids[name] for name in parts["train"]]
    return Splits(
        labelled=tuple(case.id for case in training if case.label),
        unlabelled=tuple(case.id for case in training if not case.label),
        validation=tuple(ids[name].id for name in parts["validation"]),
        test=tuple(ids[name].id for name in parts["test"]),
    )


def labelled_cases(dataset: str, labelled: int) -> int:
    """How many cases the paper's count of labelled scans, or patients of ACDC, stands for."""
    return labelled * FRAMES_A_PATIENT if dataset == "acdc" else labelled


def listed_name(id_: str) -> str:
    """The name that the lists have for a case, from e.g. `image0001_norm` or `X_mri_norm2`."""
    return _ENDING.sub("", id_)


@cache
def _read(dataset: str, part: Part) -> tuple[str, ...]:
    file = resources.files("tracoco") / "studies" / "paper" / "lists" / f"{dataset}_{part}.txt"
    if part == "validation" and not file.is_file():
        return ()
    return tuple(file.read_text(encoding="utf-8").split())
