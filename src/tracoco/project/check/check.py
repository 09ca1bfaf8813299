"""The whole check: every case opened, the set judged, the needs added up."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

from tracoco.errors import UserError
from tracoco.project.cases import Case, source_bytes
from tracoco.project.check.data_set import set_rows
from tracoco.project.check.problems import CaseCheck, Row, check_case, fault, noted
from tracoco.project.folder import Project
from tracoco.project.labels import PLAIN, LabelRule, names_in_files
from tracoco.project.layouts import find_cases
from tracoco.project.plan import Plan
from tracoco.project.prepare import prepare_scans
from tracoco.project.splits import Splits
from tracoco.project.survey import SurveyTask, survey_cases
from tracoco.scans.scan import ScanHeader
from tracoco.text import html_table


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
    rule: LabelRule = PLAIN
    """How labels are read."""


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
    rule = plan.label_rule if plan else PLAIN
    return Material(project.root, tuple(kept), _all_parts(kept, parts), plan, tuple(rows), rule)


def _of_folder(data: Path) -> Material:
    rows: list[Row] = []
    cases: tuple[Case, ...] = ()
    parts: dict[str, str] = {}
    rule = PLAIN
    with noted(rows, file=data):
        found = find_cases(data)
        cases = found.cases
        structures = names_in_files(cases, found.class_names, found.ignore)
        names = {value: structure.name for value, structure in structures.items()}
        rule = LabelRule(found.ignore, names)
        parts = {case.id: "labelled" if case.label else "unlabelled" for case in cases}
        if found.splits:
            parts |= _parts(found.splits)
    return Material(data, cases, parts, None, tuple(rows), rule)


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
    """Sizes by the part of a scan that is stored; memory and time by the case that was prepared."""
    read = [(one, one.header) for one in checks if one.header]
    disk = sum(_stored_bytes(one, header, plan) for one, header in read)
    needs = Needs(disk, shutil.disk_usage(root).free)
    for one, header in read:
        cost = one.survey.cost
        if plan and cost:
            largest = max(_voxels(other) for _, other in read)
            scans = sum(_voxels(other) for _, other in read) / _voxels(header)
            voxels = max(prod(other.stored_shape(about, plan)) for other, about in read)
            memory = int(cost.peak_bytes * largest / _voxels(header))
            return replace(
                needs,
                memory_bytes=memory + voxels * RESAMPLED_BYTES * header.channels,
                prepare_seconds=cost.seconds * scans,
                measured_on=one.case.id,
            )
    return needs


def disk_rows(needs: Needs, root: Path) -> list[Row]:
    """An error if the store does not fit on its disk."""
    if needs.disk_bytes <= needs.free_bytes:
        return []
    problem = f"the store takes {gigabytes(needs.disk_bytes)}; {gigabytes(needs.free_bytes)} free"
    return [fault("", root, problem, "free some space, or use a coarser spacing_mm in plan.yaml")]


def gigabytes(count: float) -> str:
    """Bytes for a person."""
    return f"{count / 1e9:.2g} GB" if count >= 1e8 else f"{count / 1e6:.2g} MB"


def _voxels(header: ScanHeader) -> int:
    return prod(header.shape) * header.channels


def _stored_bytes(one: CaseCheck, header: ScanHeader, plan: Plan | None) -> int:
    labelled = one.part != "unlabelled"
    each = IMAGE_BYTES * header.channels + (LABEL_BYTES if labelled else 0)
    return prod(one.stored_shape(header, plan)) * each


@dataclass(frozen=True, slots=True)
class TrainingNeeds:
    """What a training with the default settings takes on this machine."""

    training_memory_bytes: int | None
    """At the peak of a step; None where it cannot be counted."""
    training_seconds: float
    training_steps: int


@dataclass(frozen=True, slots=True)
class Checked:
    """All problems, errors first, and what it takes to prepare the cases and to train."""

    rows: tuple[Row, ...]
    needs: Needs
    material: Material
    """What was checked."""
    training: TrainingNeeds | None = None
    """None without a plan, and where an error stops a training anyway."""

    @property
    def exit_code(self) -> int:
        """0 if there is nothing to say, 1 if there are warnings only, 2 if there are errors."""
        severities = {row.severity for row in self.rows}
        return 2 if "error" in severities else 1 if severities else 0

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        needs = asdict(self.needs) | (asdict(self.training) if self.training else {})
        return {"rows": [asdict(row) for row in self.rows], "needs": needs}

    def _repr_html_(self) -> str:
        """The problems as a table for a notebook."""
        if not self.rows:
            return "<div>no problems found</div>"
        cells = [(r.case, Path(r.file).name, r.severity, r.problem, r.fix) for r in self.rows]
        return html_table(("case", "file", "", "problem", "how to fix it"), cells)


def check(
    material: Material,
    on_case: Callable[[str], None] | None = None,
    workers: int | None = None,
) -> Checked:
    """Open every case and judge them all.

    Args:
        material: from `gather`; labels of its unlabelled cases stay closed.
        on_case: called with the id of each case once it has been checked.
        workers: processes, each with one case in memory; None for as many as suit the machine.
    """
    surveys = {one.case.id: one for one in survey_cases(_tasks(material), on_case, workers)}
    plan, parts = material.plan, material.parts
    checks = [check_case(surveys[case.id], parts[case.id], plan) for case in material.cases]
    needs = needs_of(checks, plan, material.root)
    rows = [
        *material.rows,
        *disk_rows(needs, material.root),
        *set_rows(checks, plan),
        *(row for one in checks for row in one.rows),
    ]
    rows.sort(key=lambda row: (row.severity != "error", row.case))
    return Checked(tuple(rows), needs, material)


def _tasks(material: Material) -> list[SurveyTask]:
    """All cases; that of the median file size comes last and is prepared, to measure the needs."""
    tasks = []
    for case in sorted(material.cases, key=source_bytes):
        unlabelled = material.parts[case.id] == "unlabelled"
        shown = replace(case, label=None) if unlabelled else case
        tasks.append(SurveyTask(shown, rule=material.rule))
    if tasks and material.plan:
        median = tasks.pop(len(tasks) // 2)
        tasks.append(replace(median, prepare=partial(prepare_scans, plan=material.plan)))
    return tasks
