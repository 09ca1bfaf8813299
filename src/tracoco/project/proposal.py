"""What a project would hold, before any of it is written: cases, and the part each is in."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tracoco.errors import UserError
from tracoco.project.cases import Case
from tracoco.project.draw import hide_labels, make_splits
from tracoco.project.duplicates import check_duplicates
from tracoco.project.groups import with_groups
from tracoco.project.layouts import Found
from tracoco.project.origin import Origin
from tracoco.project.splits import Splits, check_splits


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


@dataclass(frozen=True, slots=True)
class Proposal:
    """A project that is in order as far as names go; no voxel was looked at."""

    cases: tuple[Case, ...]
    splits: Splits
    origin: Origin
    class_names: Mapping[int, str] = field(default_factory=dict)


def propose(found: Found, choice: SplitChoice) -> Proposal:
    """Divide the cases that were found; refuse what leaks."""
    cases = with_groups(found.cases, choice.group_pattern)
    drawn = _divided(cases, found, choice)
    splits = hide_labels(drawn, choice.hide_labels)
    check_splits(splits, cases, "the split")
    notes = [*found.notes, *check_duplicates(cases, splits)]
    if splits.hidden:
        notes.append(
            f"{len(splits.hidden)} labels are hidden: these cases count as unlabelled, "
            "which simulates having fewer labels"
        )
    origin = Origin(found.layout, choice.group_pattern, tuple(notes), found.watermark, found.plan)
    return Proposal(cases, splits, origin, found.class_names)


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
