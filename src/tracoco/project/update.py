"""More scans or labels for a project that exists, and a plan made again; the test set stays."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tracoco.errors import UserError, raise_all
from tracoco.files import write_text
from tracoco.lock import only_writer
from tracoco.project.cases import Case
from tracoco.project.create import OnCase, Proposal, with_scans_read, write_project
from tracoco.project.fingerprint import Fingerprint, read_fingerprint, take_fingerprint
from tracoco.project.folder import Project
from tracoco.project.folds import Folding, check_folding
from tracoco.project.label_table import AS_DRAWN, LabelChoice, check_structures, with_drawn
from tracoco.project.layouts import Found
from tracoco.project.machine import Device
from tracoco.project.plan import Plan, write_plan
from tracoco.project.planner import make_plan
from tracoco.project.splits import PARTS, Splits, check_splits, with_groups


@dataclass(frozen=True, slots=True)
class Update:
    """The project as it will be, and how it differs from what it is."""

    proposal: Proposal
    added: tuple[str, ...]
    newly_labelled: tuple[str, ...]
    redrawn: tuple[str, ...] = ()
    """Known labels of which another part is said to be drawn."""

    @property
    def changed(self) -> bool:
        """Whether there is anything to write."""
        more = self.added or self.newly_labelled or self.redrawn
        return bool(more or self.proposal.folding)

    @property
    def unchanged(self) -> int:
        """How many cases stay as they are."""
        changed = (self.added, self.newly_labelled, self.redrawn)
        return len(self.proposal.cases) - sum(map(len, changed))

    def change(self, id_: str) -> str:
        """What happens to a case, in words."""
        if id_ in self.added:
            return "added"
        if id_ in self.redrawn:
            return "drawn otherwise"
        return "newly labelled" if id_ in self.newly_labelled else "unchanged"


def propose_update(
    project: Project,
    found: Found,
    labels: LabelChoice = AS_DRAWN,
    folding: Folding | None = None,
) -> Update:
    """Compare what was found with what the project knows; nothing is written.

    Who goes on to apply it does both with the project's lock, or another update may come between.
    A folding is for a project that has no folds yet.
    """
    known = {case.id: case for case in project.load_cases()}
    splits, origin = project.load_splits(), project.load_origin()
    cases = {case.id: case for case in with_groups(found.cases, origin.group_pattern)}
    raise_all(_removed(known, cases))
    for id_, case in known.items():
        group = case.group or cases[id_].group
        cases[id_] = replace(cases[id_], group=group, drawn=case.drawn)
    wanted = _part_of(found.splits) if found.splits else {}
    labelled = {id_ for id_, case in known.items() if cases[id_].label and not case.label}
    labelled &= {id_ for id_ in splits.unlabelled if wanted.get(id_, "labelled") == "labelled"}
    order = wanted or cases  # lists beside the data have an order of their own
    added = tuple(id_ for id_ in order if id_ not in known)
    newly = tuple(id_ for id_ in order if id_ in labelled)
    changed = _with_cases(splits, known, [cases[id_] for id_ in (*newly, *added)], wanted)
    merged = tuple(sorted(cases.values(), key=lambda case: case.id))
    plan, new = project.load_plan(), {*newly, *added}
    merged = with_drawn(merged, labels, plan.label_rule.names, new=sorted(new))
    check_structures(merged, plan.label_values)
    redrawn = tuple(
        case.id for case in merged if case.id not in new and case.drawn != known[case.id].drawn
    )
    check_splits(changed, merged, "the split")
    if folding:
        check_folding(folding, changed, merged)
    origin = replace(origin, notes=(*found.notes, *_kept_apart(changed, wanted)))
    return Update(Proposal(merged, changed, origin, folding=folding), added, newly, redrawn)


def apply_update(
    project: Project, update: Update, *, workers: int | None = 1, on_case: OnCase | None = None
) -> None:
    """Look at all scans, then replace the project's files; the plan stays as it was edited."""
    proposal, plan = update.proposal, project.load_plan()
    fingerprint = take_fingerprint(
        proposal.cases, proposal.splits, plan.label_rule, on_case=on_case, workers=workers
    )
    _check_plan(plan, fingerprint, project)
    write_project(project, with_scans_read(proposal, fingerprint), fingerprint)


def _removed(known: Mapping[str, Case], found: Mapping[str, Case]) -> list[str]:
    problems = []
    for id_, case in known.items():
        if id_ not in found:
            problems.append(f"case '{id_}' is gone: {case.images[0]} was its image")
        elif case.label and not found[id_].label:
            problems.append(f"case '{id_}' has lost its label, which was {case.label}")
    fix = "Restore what is missing, or make a new project without it"
    return [f"{problem}. {fix}" for problem in problems]


def _with_cases(
    splits: Splits, known: Mapping[str, Case], new: Sequence[Case], wanted: Mapping[str, str]
) -> Splits:
    """The split with new cases behind the others: where the data says, else with their group."""
    part_of_group = {
        known[id_].group: part for part in ("validation", "test") for id_ in splits.parts[part]
    }
    parts = {part: list(ids) for part, ids in splits.parts.items()}
    for case in new:
        part = "labelled" if case.label else "unlabelled"
        if case.id in parts["unlabelled"]:
            parts["unlabelled"].remove(case.id)
        elif case.label and case.group:
            part = part_of_group.get(case.group, part)
        parts[wanted.get(case.id, part)].append(case.id)
    changed = {part: tuple(parts[part]) for part in PARTS}
    return Splits(**changed, hidden=splits.hidden, folds=splits.folds)


def _kept_apart(splits: Splits, wanted: Mapping[str, str]) -> list[str]:
    """Where the data says otherwise than the project, which does not move its cases."""
    return [
        f"the data names case '{id_}' for {wanted[id_]}; the project keeps it in {part}"
        for id_, part in _part_of(splits).items()
        if wanted.get(id_, part) != part and id_ not in splits.hidden
    ]


def _part_of(splits: Splits) -> dict[str, str]:
    return {id_: part for part, ids in splits.parts.items() for id_ in ids}


def _check_plan(plan: Plan, fingerprint: Fingerprint, project: Project) -> None:
    """Refuse labels and channels that the plan does not know: it may be older than they are."""
    values = sorted({fact.value for fact in fingerprint.labels} - set(plan.label_values))
    if values:
        raise UserError(
            f"the labels have the new values {', '.join(map(str, values))}, which "
            f"{project.plan_file} does not list; add them to its label_values and class_names, "
            "or correct the labels. Nothing was changed"
        )
    channels = fingerprint.cases[0].channels
    if channels != plan.channels:
        raise UserError(
            f"the scans have {channels} channels, {project.plan_file} has {plan.channels}; "
            "give scans like those of the project. Nothing was changed"
        )


@dataclass(frozen=True, slots=True)
class PlanChange:
    """One value of a plan that was made again, as JSON has it."""

    name: str
    old: Any
    new: Any


def redo_plan(
    project: Project, memory_gb: float | None = None, device: Device | None = None
) -> tuple[PlanChange, ...]:
    """Derive all values again and return those that changed.

    What the data does not tell stays: 2D or 3D, the classes with their names, the axes along which
    crops are mirrored, and what was known of the data set when the project was made, e.g. by a
    data set of the paper.
    """
    with only_writer(project.root, "plan --redo"):
        return _redone(project, memory_gb, device)


def _redone(
    project: Project, memory_gb: float | None, device: Device | None
) -> tuple[PlanChange, ...]:
    old = project.load_plan()
    known = dict(project.load_origin().plan)
    said = {"label_values", "class_names", "class_colours", "ignore_label", "mirror_axes"}
    kept = known | old.model_dump(include=said)
    fingerprint = read_fingerprint(project.fingerprint_file)
    new = make_plan(fingerprint, old.dimensions, overrides=kept, memory_gb=memory_gb, device=device)
    write_text(backup_file(project), project.plan_file.read_text(encoding="utf-8"))
    write_plan(project.plan_file, new)
    return _changes(old, new)


def backup_file(project: Project) -> Path:
    """Where the plan before the last one is."""
    return project.plan_file.with_name(f"{project.plan_file.name}.bak")


def _changes(old: Plan, new: Plan) -> tuple[PlanChange, ...]:
    before, after = old.model_dump(mode="json"), new.model_dump(mode="json")
    changed = [name for name in before if before[name] != after[name]]
    return tuple(PlanChange(name, before[name], after[name]) for name in changed)
