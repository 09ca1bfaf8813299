from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracoco.errors import UserError
from tracoco.project.cases import Case
from tracoco.project.splits import Splits, check_splits, make_splits, read_splits, write_splits


def cases(labelled: Sequence[str], unlabelled: Sequence[str] = ()) -> list[Case]:
    return [Case(i, (Path(i),), Path(i)) for i in labelled] + [
        Case(i, (Path(i),), None) for i in unlabelled
    ]


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


def test_overlaps_are_named() -> None:
    with pytest.raises(UserError) as error:
        Splits(("A3", "A7", "B"), (), (), ("A7", "A3"))
    assert str(error.value) == (
        "labelled and test cases overlap: 'A3', 'A7'. A split must keep them apart"
    )


def test_all_faults_of_a_split_are_named_at_once() -> None:
    with pytest.raises(UserError) as error:
        Splits((), ("u", "u"), ("v",), ("v",))
    text = str(error.value)
    assert "at least one labelled case" in text
    assert "unlabelled cases are listed twice: 'u'" in text
    assert "validation and test cases overlap: 'v'" in text


def test_splits_are_written_and_read(tmp_path: Path) -> None:
    splits = Splits(("b", "a"), ("u",), ("v",), ("t",))
    write_splits(tmp_path / "splits.json", splits)
    assert read_splits(tmp_path / "splits.json") == splits
    assert '"labelled": [\n    "b",\n    "a"\n  ]' in (tmp_path / "splits.json").read_text()


def test_parts_may_be_left_out(tmp_path: Path) -> None:
    (tmp_path / "splits.json").write_text('{"labelled": ["a"]}')
    assert read_splits(tmp_path / "splits.json") == Splits(("a",), (), (), ())


def test_a_misspelt_part_is_named(tmp_path: Path) -> None:
    (tmp_path / "splits.json").write_text('{"labeled": ["a"]}')
    with pytest.raises(UserError, match=r"splits\.json: 'labeled' .*did you mean 'labelled'"):
        read_splits(tmp_path / "splits.json")


def test_the_hash_follows_the_content() -> None:
    splits = Splits(("a", "b"), (), (), ("t",))
    assert splits.hash() == Splits(("a", "b"), (), (), ("t",)).hash()
    assert splits.hash() != Splits(("a", "b"), (), ("t",), ()).hash()
    assert splits.hash() != Splits(("b", "a"), (), (), ("t",)).hash()


def test_a_split_must_name_cases_that_exist_and_have_their_label() -> None:
    found = cases(["a"], ["u"])
    check_splits(Splits(("a",), ("u",), (), ()), found, "splits.json")
    with pytest.raises(UserError) as error:
        check_splits(Splits(("a", "u"), ("x",), (), ()), found, "splits.json")
    assert "splits.json lists case 'x', but cases.json has no such case" in str(error.value)
    assert "wants the label of case 'u', which has none" in str(error.value)


def test_a_label_may_be_hidden() -> None:
    check_splits(Splits(("a",), ("b",), (), ()), cases(["a", "b"]), "splits.json")
