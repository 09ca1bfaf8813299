"""A CSV file that lists the cases."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tracoco.errors import UserError
from tracoco.project.layouts import Found, find_cases

Touch = Callable[..., None]
Short = Callable[[Found], list[tuple[object, ...]]]


@pytest.fixture
def write(tmp_path: Path, touch: Touch) -> Callable[..., Path]:
    touch("scans/a.nii", "scans/b.nii", "scans/c.nii", "truth/a_label.nii", "truth/b_label.nii")

    def write_lines(*lines: str) -> Path:
        file = tmp_path / "cases.csv"
        file.write_text("\n".join(lines) + "\n", encoding="utf-8-sig")
        return file

    return write_lines


def test_every_column_is_understood(write: Callable[..., Path], short: Short) -> None:
    file = write(
        "Image,label, group,split,id",
        "scans/b.nii,truth/b_label.nii,anna,labelled,second",
        "scans/a.nii,truth/a_label.nii,bert,test,first",
        "scans/c.nii,,,,",
    )
    found = find_cases(file)
    assert found.layout == "csv"
    assert short(found) == [
        ("c", "c.nii", None, None),
        ("first", "a.nii", "a_label.nii", "bert"),
        ("second", "b.nii", "b_label.nii", "anna"),
    ]
    assert found.cases[0].images[0] == file.parent / "scans" / "c.nii"
    assert found.splits is not None
    assert found.splits.parts == {
        "labelled": ("second",),
        "unlabelled": ("c",),
        "validation": (),
        "test": ("first",),
    }


def test_the_order_of_lines_is_that_of_the_training_cases(write: Callable[..., Path]) -> None:
    file = write(
        "image,label,split",
        "scans/b.nii,truth/b_label.nii,labelled",
        "scans/a.nii,truth/a_label.nii,labelled",
    )
    splits = find_cases(file).splits
    assert splits is not None
    assert splits.labelled == ("b", "a")


def test_without_a_split_the_parts_are_left_to_be_drawn(write: Callable[..., Path]) -> None:
    assert find_cases(write("image,label", "scans/a.nii,truth/a_label.nii")).splits is None


def test_channels_have_columns_of_their_own(write: Callable[..., Path], short: Short) -> None:
    file = write("image_1,image_0,label,id", "scans/b.nii,scans/a.nii,truth/a_label.nii,x")
    assert short(find_cases(file)) == [("x", "a.nii+b.nii", "a_label.nii", None)]


def test_a_label_that_is_marked_unlabelled_stays_unread(write: Callable[..., Path]) -> None:
    file = write(
        "image,label,split",
        "scans/a.nii,truth/a_label.nii,labelled",
        "scans/b.nii,truth/b_label.nii,unlabelled",
    )
    splits = find_cases(file).splits
    assert splits is not None
    assert splits.unlabelled == ("b",)


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (("image,lable", "scans/a.nii,"), r"a column 'lable'; did you mean 'label'"),
        (("label", "truth/a_label.nii"), r"no line with an 'image'"),
        (("image,label",), r"no line with an 'image'"),
        (("image,label", ",truth/a_label.nii"), r"line 2: there is no image"),
        (("image", "scans/z.nii"), r"line 2: .*z\.nii does not exist"),
        (("image", "cases.csv"), r"line 2: .*cases\.csv is of no known format"),
        (("image,split", "scans/a.nii,train"), r"line 2: split is 'train'"),
        (("image,split", "scans/a.nii,test"), r"line 2: case 'a' is 'test', but has no label"),
        (("image", "scans/a.nii", "scans/a.nii"), r"line 3: case 'a' comes twice; add .*'id'"),
    ],
)
def test_what_is_wrong_is_said_with_the_line(
    write: Callable[..., Path], lines: tuple[str, ...], problem: str
) -> None:
    with pytest.raises(UserError, match=problem):
        find_cases(write(*lines))
