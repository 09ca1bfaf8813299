from collections.abc import Sequence
from pathlib import Path

import pytest

from tracoco.errors import UserError
from tracoco.project.cases import Case
from tracoco.project.splits import Splits, check_splits, read_splits, write_splits


def cases(labelled: Sequence[str], unlabelled: Sequence[str] = ()) -> list[Case]:
    return [Case(i, (Path(i),), Path(i)) for i in labelled] + [
        Case(i, (Path(i),), None) for i in unlabelled
    ]


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
    with_labels = cases(["a", "b"])
    check_splits(Splits(("a",), ("b",), (), ()), with_labels, "splits.json")
    assert all(case.label for case in with_labels)


def test_hidden_labels_are_written_and_do_not_change_the_hash(tmp_path: Path) -> None:
    shown = Splits(("a",), ("u", "b"), (), ())
    hidden = Splits(("a",), ("u", "b"), (), (), hidden=("b",))
    assert shown.hash() == hidden.hash()
    assert "b" not in hidden.annotated
    write_splits(tmp_path / "splits.json", hidden)
    assert read_splits(tmp_path / "splits.json") == hidden
    write_splits(tmp_path / "splits.json", shown)
    assert "hidden" not in (tmp_path / "splits.json").read_text()


def test_hidden_cases_must_be_unlabelled_ones() -> None:
    with pytest.raises(UserError, match="hidden cases are not among the unlabelled ones: 'a'"):
        Splits(("a",), ("u",), (), (), hidden=("a",))


def test_an_edited_split_may_not_divide_a_group() -> None:
    found = [Case(i, (Path(i),), Path(i), "anna" if i in "abu" else None) for i in "abcu"]
    check_splits(Splits(("a", "b"), ("u",), (), ("c",)), found, "splits.json")
    with pytest.raises(UserError) as error:
        check_splits(Splits(("a",), ("u",), (), ("b", "c")), found, "splits.json")
    assert str(error.value) == (
        "splits.json: group 'anna' is in two parts of the split: 'a' in training, 'b' in test. "
        "Move them together, or take one out"
    )
