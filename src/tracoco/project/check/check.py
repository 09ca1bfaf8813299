"""The whole check: every case opened, the set judged, the needs added up."""

import shutil
import time
import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

from tracoco.errors import UserError
from tracoco.project.cases import Case, source_bytes, unsafe_ids
from tracoco.project.check.case_check import (
    CaseCheck,
    CheckTask,
    check_case,
    lost_check,
    stored_shape,
)
from tracoco.project.check.data_set import set_rows
from tracoco.project.check.problem import Row, error_rows, fault, noted
from tracoco.project.folder import Project
from tracoco.project.layouts import find_cases
from tracoco.project.plan import Plan
from tracoco.project.prepared import prepare_case
from tracoco.project.splits import Splits
from tracoco.project.workers import in_parallel, suitable_workers
from tracoco.scans.scan import ScanHeader


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


IMAGE_BYTES, LABEL_BYTES = 4, 1
"""Of a voxel in the store, for each channel and for the label."""
RESAMPLED_BYTES = 8
"""Of a voxel while it is resampled: torch's memory, which the measurement does not see."""


@dataclass(frozen=True, slots=True)
class Needs:
    """Sums over all cases that could be read; None where there is no plan to go by."""

    disk_bytes: int
    """The store, uncompressed; at the scans' own spacing while there is no plan."""
    free_bytes: int
    memory_bytes: int | None = None
    """At the peak of preparing the largest case, for each process."""
    prepare_seconds: float | None = None
    """By one process."""
    measured_on: str = ""
    """The case that was prepared, and thrown away, to know memory and time."""


def needs_of(checks: Sequence[CaseCheck], plan: Plan | None, root: Path) -> Needs:
    """Sizes by the part of a scan that is stored; memory and time by preparing a median case."""
    seen = [(one, one.header) for one in checks if one.header]
    disk = sum(_stored_bytes(one, header, plan) for one, header in seen)
    needs = Needs(disk, shutil.disk_usage(root).free)
    sound = [(one, header) for one, header in seen if not _broken(one)]
    if plan is None or not sound:
        return needs
    sound.sort(key=lambda item: _voxels(item[1]))
    one, header = sound[len(sound) // 2]
    hidden = None if one.part == "unlabelled" else one.case.label
    tracemalloc.start()
    start = time.perf_counter()
    try:
        prepare_case(replace(one.case, label=hidden), plan)
    except UserError:  # what is wrong with it has a row of its own
        return needs
    finally:
        seconds = time.perf_counter() - start
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    largest = max(_voxels(header) for _, header in seen)
    fraction = sum(_voxels(header) for _, header in seen) / _voxels(header)
    resampled = max(prod(stored_shape(*each, plan)) for each in seen) * RESAMPLED_BYTES
    memory = int(peak * largest / _voxels(header)) + resampled * header.channels
    return replace(
        needs, memory_bytes=memory, prepare_seconds=seconds * fraction, measured_on=one.case.id
    )


def disk_rows(needs: Needs, root: Path) -> list[Row]:
    """An error if the store does not fit on its disk."""
    if needs.disk_bytes <= needs.free_bytes:
        return []
    problem = f"the store takes {gigabytes(needs.disk_bytes)}; {gigabytes(needs.free_bytes)} free"
    return [fault("", root, problem, "free some space, or use a coarser spacing_mm in plan.yaml")]


def gigabytes(count: float) -> str:
    """Bytes for a person."""
    return f"{count / 1e9:.2g} GB" if count >= 1e8 else f"{count / 1e6:.2g} MB"


def _broken(one: CaseCheck) -> bool:
    return any(row.severity == "error" for row in one.rows)


def _voxels(header: ScanHeader) -> int:
    return prod(header.shape) * header.channels


def _stored_bytes(one: CaseCheck, header: ScanHeader, plan: Plan | None) -> int:
    labelled = one.part != "unlabelled"
    each = IMAGE_BYTES * header.channels + (LABEL_BYTES if labelled else 0)
    return prod(stored_shape(one, header, plan)) * each


@dataclass(frozen=True, slots=True)
class Checked:
    """All problems, errors first, and what it takes to prepare the cases."""

    rows: tuple[Row, ...]
    needs: Needs
    material: Material
    """What was checked."""

    @property
    def exit_code(self) -> int:
        """0 if there is nothing to say, 1 if there are warnings only, 2 if there are errors."""
        severities = {row.severity for row in self.rows}
        return 2 if "error" in severities else 1 if severities else 0

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"rows": [asdict(row) for row in self.rows], "needs": asdict(self.needs)}


def check(
    material: Material,
    on_case: Callable[[str], None] | None = None,
    workers: int | None = None,
) -> Checked:
    """Open every case and judge them all.

    Args:
        material: from `gather`; labels of its unlabelled cases stay closed.
        on_case: called with the id of each case once it has been looked at.
        workers: processes, each with one case in memory; None for as many as suit the machine.
    """
    tasks = [CheckTask(case, material.parts[case.id], material.plan) for case in material.cases]
    if workers is None:
        workers = suitable_workers(sum(map(source_bytes, material.cases)))
    done: dict[str, CaseCheck] = {}
    with closing(in_parallel(check_case, tasks, workers, died=lost_check)) as results:
        for task, result in results:
            done[task.case.id] = result
            if on_case:
                on_case(task.case.id)
    checks = [done[case.id] for case in material.cases]
    needs = needs_of(checks, material.plan, material.root)
    rows = [
        *material.rows,
        *disk_rows(needs, material.root),
        *set_rows(checks, material.plan),
        *(row for one in checks for row in one.rows),
    ]
    rows.sort(key=lambda row: (row.severity != "error", row.case))
    return Checked(tuple(rows), needs, material)
