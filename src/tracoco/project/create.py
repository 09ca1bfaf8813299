"""How a project comes to be: the data is looked at, divided and planned, then all is written."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from tracoco.errors import UserError
from tracoco.project.cases import Case, write_cases
from tracoco.project.commit import remove_abandoned, replaced_together, take_back
from tracoco.project.fingerprint import Fingerprint, take_fingerprint, write_fingerprint
from tracoco.project.folder import Project
from tracoco.project.layouts import find_cases
from tracoco.project.machine import Device, find_machine
from tracoco.project.make_plan import make_plan
from tracoco.project.origin import write_origin
from tracoco.project.plan import Plan
from tracoco.project.plan_file import write_plan
from tracoco.project.proposal import Proposal, SplitChoice, propose
from tracoco.project.splits import Splits, write_splits

OnCase = Callable[[str], None]


def init_project(  # noqa: PLR0913  # each is a choice of the user's, with a default
    data: Path,
    out: Path,
    *,
    labels: Path | None = None,
    validation: int = 0,
    test: int = 0,
    dimensions: Literal[2, 3] = 3,
    seed: int = 0,
    split: Callable[[Sequence[Case]], Splits] | None = None,
) -> Project:
    """Look at the data, split and plan; write the folder only if all of it is in order.

    With `split` the cases are not drawn: it says which case goes where.
    """
    check_free(out)
    choice = SplitChoice(validation, test, seed, lists=split)
    return create_project(out, propose(find_cases(data, labels), choice), dimensions)


def check_free(out: Path) -> None:
    """Refuse a folder that something lies in; what is left of one who was killed is removed."""
    remove_abandoned(out)
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise UserError(
            f"{out} exists already and is left as it is; choose another folder, or add new scans "
            "to a project with --update"
        )


def create_project(  # noqa: PLR0913  # the same
    out: Path,
    proposal: Proposal,
    dimensions: Literal[2, 3] = 3,
    *,
    memory_gb: float | None = None,
    device: Device | None = None,
    workers: int | None = 1,
    on_case: OnCase | None = None,
) -> Project:
    """Look at the scans, plan, and write the project; nothing is left of one that fails."""
    find_machine(device, memory_gb)  # what cannot be planned for is told before scans are read
    cases, splits = proposal.cases, proposal.splits
    fingerprint = take_fingerprint(cases, splits, on_case=on_case, workers=workers)
    known = proposal.origin.plan
    plan = make_plan(fingerprint, dimensions, overrides=known, memory_gb=memory_gb, device=device)
    planned = zip(plan.label_values, plan.class_names, strict=True)
    names = tuple(proposal.class_names.get(value, name) for value, name in planned)
    plan = plan.model_copy(update={"class_names": names})
    project, existed = Project(out), out.exists()
    fresh = not project.exists
    try:
        write_project(project, proposal, fingerprint, plan)
    except BaseException:
        if fresh:
            take_back(out, project.files)
        if out.is_dir() and not existed:
            out.rmdir()
        raise
    return project


def write_project(
    project: Project, proposal: Proposal, fingerprint: Fingerprint, plan: Plan | None = None
) -> None:
    """Write or replace the files of a project, all or none; the plan stays if none is given."""
    with replaced_together(project.root) as folder:
        new = Project(folder)
        write_cases(new.cases_file, proposal.cases)
        write_splits(new.splits_file, proposal.splits)
        write_fingerprint(new.fingerprint_file, fingerprint)
        write_origin(new.origin_file, proposal.origin)
        if plan:
            write_plan(new.plan_file, plan)
