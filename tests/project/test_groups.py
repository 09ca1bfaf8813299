"""Groups found in names."""

from pathlib import Path

import pytest

from tracoco.errors import UserError
from tracoco.project.cases import Case
from tracoco.project.splits import divided_groups, with_groups


def named(*ids: str) -> list[Case]:
    return [Case(id_, (Path(id_),), None, "before" if id_ == "z" else None) for id_ in ids]


def test_the_first_bracket_is_the_group() -> None:
    found = with_groups(named("patient01_a", "patient01_b", "patient2_a", "z"), r"patient(\d+)_(.)")
    assert [case.group for case in found] == ["01", "01", "2", "before"]


def test_without_a_pattern_groups_stay() -> None:
    assert with_groups(named("a", "z"), None) == tuple(named("a", "z"))


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        (r"(a", "is no regular expression"),
        (r"a\d", "has no brackets around the group"),
        (r"(b)", "matches no case; they are called 'a1', 'a2'"),
    ],
)
def test_patterns_that_find_nothing_are_refused(pattern: str, problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        with_groups(named("a1", "a2"), pattern)


def test_training_is_one_part_and_ids_are_no_groups() -> None:
    cases = [Case(i, (Path(i),), None, g) for i, g in (("a", "x"), ("b", "x"), ("x", None))]
    assert divided_groups({"labelled": ["a"], "unlabelled": ["b"], "test": ["x"]}, cases) == []
    (problem,) = divided_groups({"labelled": ["a"], "test": ["b", "x"]}, cases)
    assert problem == "group 'x' is in two parts of the split: 'a' in training, 'b' in test"
