"""Which layout is taken, and what is said when none fits."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tracoco.errors import UserError
from tracoco.project.layouts import LAYOUTS, find_cases

Touch = Callable[..., None]


@pytest.mark.parametrize(
    ("files", "layout"),
    [
        (("images/a.nii", "labels/a.nii"), "images-labels"),
        (("imagesTr/a.nii", "labelsTr/a.nii"), "images-labels"),
        (("a.nii", "b.nii", "labels/a.nii"), "beside-labels"),
        (("p1/ct.nii", "p1/seg.nii"), "case-folders"),
        (("a.nii", "a_seg.nii"), "case-folders"),
    ],
)
def test_the_layout_is_seen_from_names(
    tmp_path: Path, touch: Touch, files: tuple[str, ...], layout: str
) -> None:
    touch(*files)
    assert find_cases(tmp_path).layout == layout


def test_a_description_beside_imagestr_is_more_telling_than_the_folders(
    tmp_path: Path, touch: Touch
) -> None:
    touch("imagesTr/a_0000.nii", "labelsTr/a.nii")
    (tmp_path / "dataset.json").write_text('{"labels": {"background": 0, "liver": 1}}')
    assert find_cases(tmp_path).layout == "nnunet"
    assert find_cases(tmp_path, layout="images-labels").layout == "images-labels"


def test_other_folders_of_labels_are_taken_where_the_layout_has_one(
    tmp_path: Path, touch: Touch
) -> None:
    touch("scans/a.nii", "scans/b.nii", "elsewhere/b.nii", "p/ct.nii", "p/seg.nii")
    with pytest.raises(UserError, match=r"--labels: .*'case-folders'.*--layout"):
        find_cases(tmp_path / "scans", tmp_path / "elsewhere")
    found = find_cases(tmp_path / "scans", tmp_path / "elsewhere", "beside-labels")
    assert [case.label for case in found.cases] == [None, tmp_path / "elsewhere" / "b.nii"]


def test_an_unknown_layout_names_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no layout 'nnu-net'; did you mean 'nnunet'"):
        find_cases(tmp_path, layout="nnu-net")


def test_a_forced_layout_that_does_not_fit_says_what_would(tmp_path: Path, touch: Touch) -> None:
    touch("images/a.nii", "labels/a.nii")
    with pytest.raises(UserError) as error:
        find_cases(tmp_path, layout="nnunet")
    assert "is not laid out as 'nnunet' (imagesTr, labelsTr and dataset.json)" in str(error.value)
    assert "it holds images, labels; it looks like images-labels" in str(error.value)


def test_no_layout_at_all_lists_those_that_there_are(tmp_path: Path, touch: Touch) -> None:
    touch("image/readme.txt", "notes.txt")
    with pytest.raises(UserError) as error:
        find_cases(tmp_path)
    text = str(error.value)
    assert "laid out in no known way: it holds image, notes.txt" in text
    assert "Is image/ meant to be images/?" in text
    assert all(row.name in text for row in LAYOUTS)


@pytest.mark.parametrize("name", ["nowhere", "a.nii"])
def test_what_is_no_folder_is_refused(tmp_path: Path, touch: Touch, name: str) -> None:
    touch("a.nii")
    with pytest.raises(UserError, match=r"does not exist|laid out in no known way"):
        find_cases(tmp_path / name)
