"""Whose scan it is: cases of one person learn together, or are kept away together."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from tracoco.errors import UserError
from tracoco.project.cases import Case

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
