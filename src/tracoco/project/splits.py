"""Which cases are labelled, unlabelled, for validation and for the test set, by patient."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

from tracoco.errors import UserError, raise_all
from tracoco.files import digest, read_json, write_json
from tracoco.project.cases import Case, CaseId
from tracoco.settings import Settings, checked

TRAINING = ("labelled", "unlabelled")
"""One part, as groups go: nothing leaks from a person's labelled scan to the unlabelled one."""


def with_groups(cases: Sequence[Case], pattern: str | None) -> tuple[Case, ...]:
    """Cases with the group that a pattern finds in their ids; as they are without a pattern.

    The group is the first bracket of the pattern; a case that does not match is alone.
    """
    if pattern is None:
        return tuple(cases)
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise UserError(f"--group-pattern '{pattern}' is no regular expression ({error})") from None
    if compiled.groups < 1:
        raise UserError(
            f"--group-pattern '{pattern}' has no brackets around the group; "
            r"write e.g. 'patient(\d+)'"
        )
    matches = {case.id: compiled.search(case.id) for case in cases}
    if not any(matches.values()):
        some = ", ".join(f"'{case.id}'" for case in cases[:3])
        raise UserError(f"--group-pattern '{pattern}' matches no case; they are called {some}")
    return tuple(
        replace(case, group=match[1] or None) if (match := matches[case.id]) else case
        for case in cases
    )


def members(cases: Iterable[Case]) -> dict[str, list[str]]:
    """Ids by group; a case without one is a group of its own, under its id."""
    found = defaultdict(list)
    for case in cases:
        # A blank keeps the name of a group apart from the id of a case: no id begins with one.
        found[f" {case.group}" if case.group else case.id].append(case.id)
    return found


def divided_groups(parts: Mapping[str, Collection[str]], cases: Iterable[Case]) -> list[str]:
    """A line for each group that is in two parts."""
    part_of = {id_: part for part, ids in parts.items() for id_ in ids}
    problems = []
    for group, ids in members(cases).items():
        places: dict[str, str] = {}
        for id_ in ids:
            if part := part_of.get(id_):
                places.setdefault("training" if part in TRAINING else part, id_)
        if len(places) > 1:
            where = ", ".join(f"'{id_}' in {part}" for part, id_ in places.items())
            problems.append(f"group '{group.strip()}' is in two parts of the split: {where}")
    return problems


PARTS = ("labelled", "unlabelled", "validation", "test")


@dataclass(frozen=True, slots=True)
class Splits:
    """Ids of the cases of each part; no case is in two of them."""

    labelled: tuple[str, ...]
    unlabelled: tuple[str, ...]
    validation: tuple[str, ...]
    test: tuple[str, ...]
    hidden: tuple[str, ...] = ()
    """Those of the unlabelled cases that have a label, left unread to see what fewer labels do."""
    folds: tuple[tuple[str, ...], ...] = ()
    """The labelled cases dealt for cross-validation; a case of none is learnt from in every run."""

    def __post_init__(self) -> None:
        """Refuse a split that leaks, or that has nothing to learn from."""
        raise_all([*_problems(self.parts, self.hidden), *_fold_problems(self.folds, self.test)])

    @property
    def parts(self) -> dict[str, tuple[str, ...]]:
        """The parts by name."""
        return {part: getattr(self, part) for part in PARTS}

    @property
    def annotated(self) -> frozenset[str]:
        """The cases whose label may be opened."""
        return frozenset((*self.labelled, *self.validation, *self.test))

    @property
    def ids(self) -> tuple[str, ...]:
        """All cases, sorted."""
        return tuple(sorted((*self.annotated, *self.unlabelled)))

    def held_out(self, fold: int | None) -> tuple[str, ...]:
        """The cases of a fold, which count from 1; none without a fold."""
        return self.folds[fold - 1] if fold else ()

    def hash(self) -> str:
        """Changes with the parts and with their order, since both decide the batches."""
        return digest(self.parts)


def check_splits(splits: Splits, cases: Sequence[Case], source: str) -> None:
    """Refuse a split with unknown cases, labels that do not exist, or a group in two parts."""
    known = {case.id: case for case in cases}
    problems = [
        f"{source} lists case '{id_}', but cases.json has no such case; correct either"
        for id_ in splits.ids
        if id_ not in known
    ]
    problems += [
        f"{source} wants the label of case '{id_}', which has none; move it to 'unlabelled'"
        for id_ in sorted(splits.annotated & known.keys())
        if known[id_].label is None
    ]
    folds = {f"fold {number}": fold for number, fold in enumerate(splits.folds, start=1)}
    problems += [
        f"{source} has case '{id_}' in {name}, but not under labelled; list it there, or take it "
        "off the fold"
        for name, fold in folds.items()
        for id_ in fold
        if id_ not in splits.labelled
    ]
    problems += [
        f"{source}: {problem}. Move them together, or take one out"
        for parts in (splits.parts, folds)
        for problem in divided_groups(parts, cases)
    ]
    raise_all(problems)


def write_splits(path: Path, splits: Splits) -> None:
    """Write splits.json, which a person may edit."""
    more = {"hidden": splits.hidden, "folds": splits.folds}
    write_json(path, splits.parts | {name: ids for name, ids in more.items() if ids})


def read_splits(path: Path) -> Splits:
    """Read splits.json."""
    return Splits(**checked(_File, read_json(path), str(path)).model_dump())


class _File(Settings):
    labelled: tuple[CaseId, ...]
    unlabelled: tuple[CaseId, ...] = ()
    validation: tuple[CaseId, ...] = ()
    test: tuple[CaseId, ...] = ()
    hidden: tuple[CaseId, ...] = ()
    folds: tuple[tuple[CaseId, ...], ...] = ()


def _problems(parts: dict[str, tuple[str, ...]], hidden: Sequence[str]) -> list[str]:
    problems = [] if parts["labelled"] else ["a split needs at least one labelled case"]
    for part, ids in parts.items():
        twice = sorted({id_ for id_ in ids if ids.count(id_) > 1})
        if twice:
            problems.append(f"{part} cases are listed twice: {_quoted(twice)}. Name each once")
    for (one, first), (other, second) in combinations(parts.items(), 2):
        shared = sorted(set(first) & set(second))
        if shared:
            problems.append(
                f"{one} and {other} cases overlap: {_quoted(shared)}. A split must keep them apart"
            )
    misplaced = sorted(set(hidden) - set(parts["unlabelled"]))
    if misplaced:
        problems.append(
            f"hidden cases are not among the unlabelled ones: {_quoted(misplaced)}. List them "
            "there, or take them off 'hidden'"
        )
    return problems


def _fold_problems(folds: Sequence[Sequence[str]], test: Sequence[str]) -> list[str]:
    if not folds:
        return []
    problems = [] if len(folds) > 1 else ["one fold is no cross-validation; list two or more"]
    problems += [
        f"fold {number} has no cases; give it some, or remove it"
        for number, fold in enumerate(folds, start=1)
        if not fold
    ]
    dealt = [id_ for fold in folds for id_ in fold]
    twice = sorted({id_ for id_ in dealt if dealt.count(id_) > 1})
    if twice:
        problems.append(f"folds hold cases twice: {_quoted(twice)}. Name each once")
    tested = sorted(set(dealt) & set(test))
    if tested:
        problems.append(f"folds hold test cases: {_quoted(tested)}. Take them out of the folds")
    return problems


def _quoted(ids: Sequence[str]) -> str:
    return ", ".join(f"'{id_}'" for id_ in ids)


def with_fewer_labels(splits: Splits, count: int | None, source: Path) -> Splits:
    """Keep the first `count` labelled cases and take the others as unlabelled; all if None.

    Args:
        splits: its validation and test cases stay as they are.
        count: how many labelled cases are left to learn from.
        source: the file that the splits come from, for the one who has to change something.
    """
    if count is None:
        return splits
    if count > len(splits.labelled):
        raise UserError(
            f"data.labelled is {count}, but {source} has {len(splits.labelled)} labelled cases "
            "to learn from; ask for fewer, or leave it out to use all"
        )
    kept, hidden = splits.labelled[:count], splits.labelled[count:]
    return replace(splits, labelled=kept, unlabelled=(*splits.unlabelled, *hidden))


def check_duplicates(
    copies: Iterable[Sequence[str]], cases: Sequence[Case], splits: Splits
) -> list[str]:
    """Refuse an image that is in two parts of the split; a note for each other that is twice.

    Where labels are hidden to simulate having fewer, the case counts as labelled: the two learn
    together either way, and nobody chose to part them.

    Args:
        copies: ids of cases that have the same voxels, those that are alike together.
        cases: all cases.
        splits: cases of no part do not count.
    """
    part_of = {id_: part for part, ids in splits.parts.items() for id_ in ids}
    part_of |= dict.fromkeys(splits.hidden, "labelled")
    for number, fold in enumerate(splits.folds, start=1):
        part_of |= dict.fromkeys(fold, f"fold {number}")
    image_of = {case.id: case.images[0] for case in cases}
    problems, notes = [], []
    for alike in copies:
        for first, second in combinations([id_ for id_ in alike if id_ in part_of], 2):
            if part_of[first] == part_of[second]:
                notes.append(f"cases '{first}' and '{second}' have the same image")
            else:
                problems.append(
                    f"case '{first}' ({part_of[first]}) and case '{second}' ({part_of[second]}) "
                    f"have the same image: {image_of[first]} and {image_of[second]}. Remove one "
                    "of them, or put both into one part"
                )
    raise_all(problems)
    return notes
