"""Fill the store of a project; what is done already is not done again."""

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracoco.errors import raise_all
from tracoco.files import atomic_path, read_json, write_json
from tracoco.project.cases import Case, unsafe_ids
from tracoco.project.folder import Project
from tracoco.project.plan import Plan
from tracoco.project.prepared import (
    PreparedCase,
    foreground_voxels,
    prepare_case,
    source_hashes,
)
from tracoco.project.problems import collected


def prepare(project: Project, on_case: Callable[[str], None] | None = None) -> int:
    """Bring all cases to the store; those that have not changed since are left as they are.

    Args:
        project: its splits say which cases are prepared, and which labels may be opened.
        on_case: called with the id of each case once it is dealt with.

    Returns:
        How many cases the store now holds for the project.
    """
    plan, root = project.load_plan(), project.store_root
    cases = _visible_cases(project)
    problems: list[str] = []
    for case in cases:
        facts: dict[str, Any] = {"id": case.id, "plan": plan.hash()}
        prepared = None
        with collected(problems):
            facts["sources"] = source_hashes(case)
            if not _is_prepared(root, facts):
                prepared = prepare_case(case, plan)
        if prepared:  # a disk that is full ends the work at once, so this is not collected
            _write_case(root, facts, prepared, plan)
        if on_case:
            on_case(case.id)
    raise_all(problems)
    return len(cases)


def facts_file(root: Path, id_: str) -> Path:
    """Where the facts about a case are; written last, so that the rest is there too."""
    return root / f"{id_}.json"


def array_file(root: Path, id_: str, part: str) -> Path:
    """Where an array of a prepared case is."""
    return root / f"{id_}.{part}.npy"


def _visible_cases(project: Project) -> list[Case]:
    """The cases of the splits; from here on an unlabelled one has no label at all."""
    splits = project.load_splits()
    raise_all(unsafe_ids(splits.ids))
    wanted, annotated = set(splits.ids), splits.annotated
    return [
        case if case.id in annotated else replace(case, label=None)
        for case in project.load_cases()
        if case.id in wanted
    ]


def _is_prepared(root: Path, facts: dict[str, Any]) -> bool:
    file = facts_file(root, facts["id"])
    if not file.is_file():
        return False
    parts = ("image", "label", "foreground") if facts["sources"]["label"] else ("image",)
    return facts.items() <= read_json(file).items() and all(
        array_file(root, facts["id"], part).is_file() for part in parts
    )


def _write_case(root: Path, facts: dict[str, Any], prepared: PreparedCase, plan: Plan) -> None:
    id_, label = facts["id"], prepared.label
    arrays: dict[str, NDArray[Any]] = {"image": prepared.image}
    if label is not None:
        arrays |= {"label": label, "foreground": foreground_voxels(label, id_)}
    with ExitStack() as stack:
        for part, array in arrays.items():
            _write_array(stack.enter_context(atomic_path(array_file(root, id_, part))), array)
        # All is on the disk under other names: until the new facts are there the case is not.
        facts_file(root, id_).unlink(missing_ok=True)
    for part in {"image", "label", "foreground"} - arrays.keys():
        array_file(root, id_, part).unlink(missing_ok=True)
    voxels = None if label is None else np.bincount(label.ravel(), minlength=plan.classes).tolist()
    more = {"shape": prepared.shape, "spacing_mm": prepared.spacing_mm, "class_voxels": voxels}
    write_json(facts_file(root, id_), facts | more | {"steps": prepared.steps})


def _write_array(path: Path, array: NDArray[Any]) -> None:
    """Like `np.save`, whose error on a full disk does not say that the disk is full."""
    array = np.ascontiguousarray(array)
    with path.open("wb") as file:
        header = np.lib.format.header_data_from_array_1_0(array)
        np.lib.format.write_array_header_1_0(file, header)
        file.write(array.data)
        file.flush()
        os.fsync(file.fileno())
