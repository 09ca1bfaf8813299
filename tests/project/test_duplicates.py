"""The same image under two names."""

from pathlib import Path
from typing import Any

import pytest

from tracoco.errors import UserError
from tracoco.project import duplicates
from tracoco.project.cases import Case
from tracoco.project.duplicates import check_duplicates, identical_images
from tracoco.project.sources import source_hashes
from tracoco.project.splits import Splits


@pytest.fixture
def cases(tmp_path: Path) -> list[Case]:
    contents = {"a": b"one", "b": b"two", "c": b"one", "d": b"three"}
    for name, content in contents.items():
        (tmp_path / f"{name}.nii").write_bytes(content)
    return [Case(name, (tmp_path / f"{name}.nii",), tmp_path / "label") for name in contents]


def test_a_copy_in_another_part_is_an_error_that_names_both(cases: list[Case]) -> None:
    with pytest.raises(UserError) as error:
        check_duplicates(cases, Splits(("a", "b"), ("d",), (), ("c",)))
    text = str(error.value)
    assert text.startswith("case 'a' (labelled) and case 'c' (test) have the same image: ")
    assert "a.nii and " in text
    assert "c.nii. Remove one of them" in text


def test_a_copy_in_the_same_part_is_only_told(cases: list[Case]) -> None:
    notes = check_duplicates(cases, Splits(("a", "b", "c"), ("d",), (), ()))
    assert notes == ["cases 'a' and 'c' have the same image"]


def test_cases_of_no_part_do_not_count(cases: list[Case]) -> None:
    assert check_duplicates(cases, Splits(("a", "b"), ("d",), (), ())) == []


def test_only_images_of_one_size_are_read(
    cases: list[Case], monkeypatch: pytest.MonkeyPatch
) -> None:
    read = []

    def counted(case: Case) -> dict[str, Any]:
        read.append(case.id)
        return source_hashes(case)

    monkeypatch.setattr(duplicates, "source_hashes", counted)
    assert [[case.id for case in same] for same in identical_images(cases)] == [["a", "c"]]
    assert read == ["a", "b", "c"]


def test_a_series_is_compared_by_its_files(tmp_path: Path) -> None:
    for series, last in (("x", b"2"), ("y", b"2"), ("z", b"3")):
        (tmp_path / series).mkdir()
        (tmp_path / series / "1.dcm").write_bytes(b"1")
        (tmp_path / series / "2.dcm").write_bytes(last)
    cases = [Case(series, (tmp_path / series,), None) for series in "xyz"]
    assert [[case.id for case in same] for same in identical_images(cases)] == [["x", "y"]]


def test_all_channels_must_be_alike(cases: list[Case]) -> None:
    a, b, c, _ = (case.images[0] for case in cases)
    two = [Case("p", (a, b), None), Case("q", (c, b), None), Case("r", (b, a), None)]
    assert [[case.id for case in same] for same in identical_images(two)] == [["p", "q"]]
