"""Drawing validation and test cases, and hiding labels."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracoco.errors import UserError
from tracoco.project.cases import Case
from tracoco.project.create import hide_labels, make_splits
from tracoco.project.splits import Splits, divided_groups


def cases(labelled: Sequence[str], unlabelled: Sequence[str] = ()) -> list[Case]:
    return [Case(i, (Path(i),), Path(i)) for i in labelled] + [
        Case(i, (Path(i),), None) for i in unlabelled
    ]


def grouped(*groups: str) -> list[Case]:
    """One labelled case a letter; the same letter in one group."""
    return [Case(f"{g}{i}", (Path(g),), Path(g), g) for i, g in enumerate("".join(groups))]


@given(st.integers(1, 12), st.integers(0, 5), st.integers(0, 5), st.integers(0, 99))
def test_parts_are_disjoint_and_complete(
    labelled: int, validation: int, test: int, seed: int
) -> None:
    found = cases([f"l{i}" for i in range(labelled)], ["u0", "u1"])
    if validation + test >= labelled:
        with pytest.raises(UserError, match=f"none of the {labelled} labelled cases to learn from"):
            make_splits(found, validation=validation, test=test, seed=seed)
        return
    splits = make_splits(found, validation=validation, test=test, seed=seed)
    assert len(splits.validation) == validation
    assert len(splits.test) == test
    assert splits.unlabelled == ("u0", "u1")
    assert splits.ids == tuple(sorted(case.id for case in found))
    assert splits.annotated == {case.id for case in found if case.label}


def test_the_draw_depends_on_the_seed_alone() -> None:
    found = cases([f"case{i}" for i in range(20)])
    first = make_splits(found, validation=3, test=4, seed=1)
    assert first == make_splits(found[::-1], validation=3, test=4, seed=1)
    assert first != make_splits(found, validation=3, test=4, seed=2)


def test_the_draw_is_not_the_order_of_names() -> None:
    found = cases([f"case{i:02}" for i in range(20)])
    tests = [make_splits(found, validation=0, test=1, seed=seed).test for seed in range(20)]
    assert len(set(tests)) > 5


def test_negative_counts_are_refused() -> None:
    with pytest.raises(UserError, match="negative"):
        make_splits(cases(["a", "b"]), validation=-1, test=0, seed=0)


@given(st.text("abcdef", min_size=1, max_size=14), st.integers(0, 4), st.integers(0, 4))
def test_no_group_is_ever_divided(groups: str, validation: int, test: int) -> None:
    found = grouped(groups)
    try:
        splits = make_splits(found, validation=validation, test=test, seed=0)
    except UserError:
        assert len(set(groups)) <= validation + test
        return
    assert divided_groups(splits.parts, found) == []
    assert len(splits.validation) >= validation
    assert len(splits.test) >= test


def test_three_labels_are_enough_for_one_of_each() -> None:
    splits = make_splits(cases(["a", "b", "c"]), validation=1, test=1, seed=0)
    assert [len(ids) for ids in splits.parts.values()] == [1, 0, 1, 1]


def test_a_group_with_an_unlabelled_scan_stays_in_the_training() -> None:
    found = [*grouped("aabb"), Case("u", (Path("u"),), None, "a")]
    for seed in range(5):
        splits = make_splits(found, validation=0, test=1, seed=seed)
        assert splits.test == ("b2", "b3")
    with pytest.raises(UserError, match="a group is kept whole"):
        make_splits(found, validation=1, test=1, seed=0)


def test_what_the_data_names_is_kept_and_the_rest_is_drawn_in_its_order() -> None:
    found = cases(["a", "b", "c", "t"], ["u"])
    given_parts = Splits(("c", "a", "b"), ("u",), (), ("t",))
    splits = make_splits(found, validation=1, test=0, seed=0, given=given_parts)
    assert splits.test == ("t",)
    assert len(splits.validation) == 1
    assert splits.labelled == tuple(i for i in "cab" if i not in splits.validation)
    with pytest.raises(UserError, match="the data names its 1 test cases; leave out --test"):
        make_splits(found, validation=0, test=1, seed=0, given=given_parts)


def test_without_any_label_there_is_nothing_to_learn_from() -> None:
    with pytest.raises(UserError, match="no case has a label"):
        make_splits(cases([], ["u"]), validation=0, test=0, seed=0)


def test_the_first_keep_their_labels_and_the_others_are_marked() -> None:
    splits = Splits(("c", "a", "b"), ("u",), ("v",), ("t",))
    assert hide_labels(splits, 1) == Splits(("c",), ("u", "a", "b"), ("v",), ("t",), ("a", "b"))
    assert hide_labels(splits, 3) == splits
    assert hide_labels(splits, None) is splits


@pytest.mark.parametrize("keep", [0, 3])
def test_more_labels_than_there_are_cannot_be_kept(keep: int) -> None:
    with pytest.raises(UserError, match=f"--hide-labels {keep} asks for {keep} of the 2 labelled"):
        hide_labels(Splits(("a", "b"), (), (), ()), keep)
