"""What there is to check: the cases of a project, or those of a folder that is to become one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tracoco.errors import UserError
from tracoco.project.cases import Case, unsafe_ids
from tracoco.project.check.row import Row, error_rows, noted
from tracoco.project.folder import Project
from tracoco.project.layouts import find_cases
from tracoco.project.plan import Plan
from tracoco.project.splits import Splits


@dataclass(frozen=True, slots=True)
class Material:
    """Cases with the part of the split that each is in, and what was wrong with the lists."""

    root: Path
    cases: tuple[Case, ...]
    parts: Mapping[str, str]
    """Of each case: labelled, unlabelled, validation or test."""
    plan: Plan | None
    """None where there is none yet, or none that can be read."""
    rows: tuple[Row, ...]


def gather(path: Path) -> Material:
    """Read the lists of a project, or pair the files of a folder; no scan is opened."""
    if not path.exists():
        raise UserError(f"{path} does not exist; give a project, or a folder of scans")
    project = Project(path)
    return _of_project(project) if project.exists else _of_folder(path)


def _of_project(project: Project) -> Material:
    cases = project.load_cases()
    rows: list[Row] = []
    plan, splits = None, None
    with noted(rows, file=project.plan_file):
        plan = project.load_plan()
    with noted(rows, file=project.splits_file):
        splits = project.load_splits()
    parts = _parts(splits) if splits else {}
    # Without a split nobody can tell which labels may be opened, so none is.
    kept = [case for case in cases if case.id in parts] if splits else cases
    rows += [row for problem in unsafe_ids(parts) for row in error_rows(UserError(problem))]
    return Material(project.root, tuple(kept), _all_parts(kept, parts), plan, tuple(rows))


def _of_folder(data: Path) -> Material:
    rows: list[Row] = []
    cases: tuple[Case, ...] = ()
    parts: dict[str, str] = {}
    with noted(rows, file=data):
        found = find_cases(data)
        cases = found.cases
        parts = {case.id: "labelled" if case.label else "unlabelled" for case in cases}
        if found.splits:
            parts |= _parts(found.splits)
    return Material(data, cases, parts, None, tuple(rows))


def _parts(splits: Splits) -> dict[str, str]:
    return {id_: part for part, ids in splits.parts.items() for id_ in ids}


def _all_parts(cases: Sequence[Case], parts: Mapping[str, str]) -> dict[str, str]:
    return {case.id: parts.get(case.id, "unlabelled") for case in cases}
