"""How a project comes to be: the data is surveyed, split and planned, then all is written."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from tracoco.errors import UserError
from tracoco.files import digest
from tracoco.lock import only_writer, own_content
from tracoco.project.cases import Case, write_cases
from tracoco.project.fingerprint import Fingerprint, take_fingerprint, write_fingerprint
from tracoco.project.folder import (
    Origin,
    Project,
    remove_abandoned,
    replaced_together,
    take_back,
    write_origin,
)
from tracoco.project.folds import Folding, check_folding, fold_note, with_folds
from tracoco.project.label_table import (
    AS_DRAWN,
    LabelChoice,
    check_structures,
    chosen_ignore,
    with_drawn,
)
from tracoco.project.labels import LabelRule, names_in_files
from tracoco.project.layouts import Found, find_cases
from tracoco.project.machine import Device, find_machine
from tracoco.project.plan import Plan, write_plan
from tracoco.project.planner import make_plan
from tracoco.project.splits import (
    Splits,
    check_duplicates,
    check_splits,
    members,
    with_groups,
    write_splits,
)
from tracoco.scans.scan import Structure
from tracoco.scans.segments import to_hex


def make_splits(
    cases: Sequence[Case], *, validation: int, test: int, seed: int, given: Splits | None = None
) -> Splits:
    """Draw validation and test cases from the labelled ones, whole groups at a time.

    The order of the draw is that of a hash of seed and id: the same on every machine, for ever.
    Groups with an unlabelled scan stay in the training, since that scan could go nowhere else.

    Args:
        cases: all cases.
        validation: how many cases at least; groups may bring more.
        test: likewise.
        seed: changes the draw.
        given: the parts that the data names itself; its labelled cases are drawn from.
    """
    given = given or _undrawn(cases)
    _check_counts(given, {"validation": validation, "test": test})
    labelled = set(given.labelled)
    whole = {name: ids for name, ids in members(cases).items() if labelled.issuperset(ids)}
    order = iter(sorted(whole, key=lambda name: digest([seed, name])))
    to_validate, to_test = (_take(order, whole, count) for count in (validation, test))
    left = tuple(id_ for id_ in given.labelled if id_ not in {*to_validate, *to_test})
    if not left or len(to_validate) < validation or len(to_test) < test:
        whole_groups = " (a group is kept whole)" if any(case.group for case in cases) else ""
        raise UserError(
            f"{validation} validation and {test} test cases leave none of the {len(labelled)} "
            f"labelled cases to learn from{whole_groups}; ask for fewer, or label more"
        )
    return replace(
        given,
        labelled=left,
        validation=given.validation or tuple(sorted(to_validate)),
        test=given.test or tuple(sorted(to_test)),
    )


def hide_labels(splits: Splits, keep: int | None) -> Splits:
    """Keep the labels of the first `keep` labelled cases; the others become unlabelled."""
    if keep is None:
        return splits
    if not 1 <= keep <= len(splits.labelled):
        raise UserError(
            f"--hide-labels {keep} asks for {keep} of the {len(splits.labelled)} labelled "
            "training cases to keep their labels; ask for at least 1 and no more than there are"
        )
    hidden = splits.labelled[keep:]
    return replace(
        splits,
        labelled=splits.labelled[:keep],
        unlabelled=(*splits.unlabelled, *hidden),
        hidden=(*splits.hidden, *hidden),
    )


def _undrawn(cases: Sequence[Case]) -> Splits:
    labelled = sorted(case.id for case in cases if case.label)
    if not labelled:
        raise UserError("no case has a label, so there is nothing to learn from; label some")
    unlabelled = sorted(case.id for case in cases if not case.label)
    return Splits(tuple(labelled), tuple(unlabelled), (), ())


def _check_counts(given: Splits, counts: Mapping[str, int]) -> None:
    for part, count in counts.items():
        if count < 0:
            raise UserError(f"{count} {part} cases: a count cannot be negative")
        named = len(given.parts[part])
        if count and named:
            raise UserError(f"the data names its {named} {part} cases; leave out --{part}")


def _take(order: Iterator[str], whole: Mapping[str, list[str]], count: int) -> list[str]:
    """The next groups, until there are so many cases or no groups any more."""
    taken: list[str] = []
    while len(taken) < count and (name := next(order, None)):
        taken += whole[name]
    return taken


@dataclass(frozen=True, slots=True)
class SplitChoice:
    """How a person wants the cases to be divided."""

    validation: int = 0
    test: int = 0
    seed: int = 0
    hide_labels: int | None = None
    """So many training cases keep their labels; all if None."""
    group_pattern: str | None = None
    lists: Callable[[Sequence[Case]], Splits] | None = None
    """Says which case goes where, in place of a draw."""
    folding: Folding | None = None
    """How the labelled cases are dealt for cross-validation; not at all if None."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A project that is in order as far as names go; no voxel was read."""

    cases: tuple[Case, ...]
    splits: Splits
    origin: Origin
    structures: Mapping[int, Structure] = field(default_factory=dict)
    """Those that the data names, by their value in the project."""
    folding: Folding | None = None
    """Folds are dealt once the scans are read: copies of a scan stay together."""

    @property
    def rule(self) -> LabelRule:
        """How labels are read, while there is no plan yet."""
        names = {value: structure.name for value, structure in self.structures.items()}
        return LabelRule(self.origin.plan.get("ignore_label"), names)


def propose(
    found: Found,
    choice: SplitChoice,
    labels: LabelChoice = AS_DRAWN,
) -> Proposal:
    """Divide the cases that were found; refuse what leaks."""
    cases = with_groups(found.cases, choice.group_pattern)
    drawn = _divided(cases, found, choice)
    splits = hide_labels(drawn, choice.hide_labels)
    check_splits(splits, cases, "the split")
    if choice.folding:
        check_folding(choice.folding, splits, cases)
    notes = list(found.notes)
    if splits.hidden:
        notes.append(
            f"{len(splits.hidden)} labels are hidden: these cases count as unlabelled, "
            "which simulates having fewer labels"
        )
    ignore = chosen_ignore(labels, found.ignore, found.class_names)
    plan = found.plan if ignore is None else {**found.plan, "ignore_label": ignore}
    origin = Origin(found.layout, choice.group_pattern, tuple(notes), found.watermark, plan)
    annotated = [case for case in cases if case.id in splits.annotated]
    structures = names_in_files(annotated, found.class_names, ignore)
    names = {value: structure.name for value, structure in structures.items()}
    cases = with_drawn(cases, labels, names, new=[case.id for case in cases])
    return Proposal(cases, splits, origin, structures, choice.folding)


def _divided(cases: Sequence[Case], found: Found, choice: SplitChoice) -> Splits:
    if choice.lists:
        if choice.validation or choice.test:
            raise UserError("the lists name all cases; leave out --validation and --test")
        return choice.lists(cases)
    return make_splits(
        cases,
        validation=choice.validation,
        test=choice.test,
        seed=choice.seed,
        given=found.splits,
    )


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
    choice = SplitChoice(validation, test, seed, lists=split)
    with new_project(out):
        return create_project(out, propose(find_cases(data, labels), choice), dimensions)


@contextmanager
def new_project(out: Path) -> Iterator[None]:
    """Have a folder for a new project, and nobody else; one that something lies in is refused.

    What is left of one who was killed is removed, and so is an empty folder after a failure.
    """
    if out.exists() and not out.is_dir():
        raise _in_use(out)
    with only_writer(out, "init"):
        remove_abandoned(out)
        if own_content(out):
            raise _in_use(out)
        yield


def _in_use(out: Path) -> UserError:
    return UserError(
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
    fingerprint = take_fingerprint(cases, splits, proposal.rule, on_case=on_case, workers=workers)
    proposal = with_scans_read(proposal, fingerprint)
    known = proposal.origin.plan
    plan = make_plan(fingerprint, dimensions, overrides=known, memory_gb=memory_gb, device=device)
    check_structures(cases, plan.label_values)
    named = {
        fact.value: Structure(fact.value, fact.name) for fact in fingerprint.labels if fact.name
    }
    plan = with_structures(plan, {**named, **proposal.structures})
    project = Project(out)
    fresh = not project.exists
    with only_writer(out, "init"):
        try:
            write_project(project, proposal, fingerprint, plan)
        except BaseException:
            if fresh:
                take_back(out, project.files)
            raise
    return project


def with_structures(plan: Plan, known: Mapping[int, Structure]) -> Plan:
    """The plan with the names and colours that the data has for structures."""
    named = [known.get(each.value, each) for each in plan.structures]
    colours = []
    if any(each.colour for each in named):
        colours = [to_hex(each.shown_colour) for each in named]
    names = (plan.class_names[0], *(each.name for each in named))
    return plan.model_copy(update={"class_names": names, "class_colours": tuple(colours)})


def with_scans_read(proposal: Proposal, fingerprint: Fingerprint) -> Proposal:
    """The proposal with its folds, and a note for each image that is there twice.

    It is refused where copies of an image would leak.
    """
    splits = with_folds(proposal.splits, proposal.cases, fingerprint, proposal.folding)
    notes = check_duplicates(fingerprint.copies, proposal.cases, splits)
    if proposal.folding:
        notes.append(fold_note(splits, proposal.folding))
    every = tuple(dict.fromkeys((*proposal.origin.notes, *notes)))
    origin = replace(proposal.origin, notes=every)
    return replace(proposal, splits=splits, origin=origin)


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
