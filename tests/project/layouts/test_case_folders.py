"""One folder a case."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from shared_data import shared_data

from tracoco.errors import UserError
from tracoco.project.layouts import Found, find_cases
from tracoco.project.layouts.case_folders import is_label, names_image
from tracoco.scans.reader import is_scan

Touch = Callable[..., None]
Short = Callable[[Found], list[tuple[object, ...]]]


def test_the_left_atrium_as_downloaded(tmp_path: Path, touch: Touch, short: Short) -> None:
    touch(*(f"Training Set/{i}/{n}.nrrd" for i in ("B1", "A2") for n in ("lgemri", "laendo")))
    touch("Training Set/C3/lgemri.nrrd")
    assert short(find_cases(tmp_path)) == [
        ("A2", "lgemri.nrrd", "laendo.nrrd", None),
        ("B1", "lgemri.nrrd", "laendo.nrrd", None),
        ("C3", "lgemri.nrrd", None, None),
    ]


def test_several_images_are_channels_and_their_order_is_told(
    tmp_path: Path, touch: Touch, short: Short
) -> None:
    for case in ("HGG/B_1", "LGG/B_2"):
        name = case.partition("/")[2]
        touch(*(f"{case}/{name}_{part}.nii.gz" for part in ("t2", "flair", "seg")))
    found = find_cases(tmp_path)
    assert short(found) == [
        ("B_1", "B_1_flair.nii.gz+B_1_t2.nii.gz", "B_1_seg.nii.gz", None),
        ("B_2", "B_2_flair.nii.gz+B_2_t2.nii.gz", "B_2_seg.nii.gz", None),
    ]
    assert found.notes == ("channels, in this order: flair, t2",)


def test_acdc_has_two_cases_a_patient(tmp_path: Path, touch: Touch, short: Short) -> None:
    for frame in ("01", "12"):
        touch(f"patient001/patient001_frame{frame}.nii.gz")
        touch(f"patient001/patient001_frame{frame}_gt.nii.gz")
    touch("patient001/patient001_4d.nii.gz", "patient002/patient002_frame05.nii.gz")
    found = find_cases(tmp_path)
    assert short(found) == [
        (
            "patient001_frame01",
            "patient001_frame01.nii.gz",
            "patient001_frame01_gt.nii.gz",
            "patient001",
        ),
        (
            "patient001_frame12",
            "patient001_frame12.nii.gz",
            "patient001_frame12_gt.nii.gz",
            "patient001",
        ),
        ("patient002_frame05", "patient002_frame05.nii.gz", None, "patient002"),
    ]
    assert "1 files that end in _4d are passed over" in found.notes[0]


def test_names_that_come_in_every_folder_do_not_make_ids(
    tmp_path: Path, touch: Touch, short: Short
) -> None:
    touch("a/ct.nii", "a/ct_seg.nii", "b/ct.nii", "b/ct_seg.nii")
    assert short(find_cases(tmp_path)) == [
        ("a", "ct.nii", "ct_seg.nii", None),
        ("b", "ct.nii", "ct_seg.nii", None),
    ]
    touch("b/mr.nii")
    assert [(case.id, case.group) for case in find_cases(tmp_path).cases] == [
        ("a", "a"),
        ("b-ct", "b"),
        ("b-mr", "b"),
    ]


def test_pairs_may_lie_in_one_folder(tmp_path: Path, touch: Touch, short: Short) -> None:
    touch("case1.nii", "case1_mask.nii", "case10.nii", "case10_mask.nii", "case2.nii")
    assert short(find_cases(tmp_path)) == [
        ("case1", "case1.nii", "case1_mask.nii", None),
        ("case10", "case10.nii", "case10_mask.nii", None),
        ("case2", "case2.nii", None, None),
    ]


def test_a_case_with_other_channels_is_named(tmp_path: Path, touch: Touch) -> None:
    touch(*(f"{case}/{n}.nii" for case in "abc" for n in ("t1", "t2", "seg")))
    (tmp_path / "b" / "t2.nii").unlink()
    with pytest.raises(UserError, match="case 'b' has the images t1; most cases have t1, t2"):
        find_cases(tmp_path)


def test_what_cannot_be_paired_is_named(tmp_path: Path, touch: Touch) -> None:
    touch(
        "a/ct.nii", "a/liver_seg.nii", "a/tumour_seg.nii", "b/seg.nii", "x/c/ct.nii", "y/c/ct.nii"
    )
    with pytest.raises(UserError) as error:
        find_cases(tmp_path)
    text = str(error.value)
    assert "a has several labels: liver_seg.nii, tumour_seg.nii" in text
    assert "b has the label seg.nii but no image" in text
    assert "case 'c' is there 2 times" in text


def test_a_series_may_be_the_image_of_a_folder(tmp_path: Path, touch: Touch, short: Short) -> None:
    series = shared_data("formats", "dicom", "mr_crop_40")
    shutil.copytree(series, tmp_path / "p1" / "dicom")
    touch("p1/seg.nii.gz")
    shutil.copytree(series, tmp_path / "p2" / "dicom")
    assert short(find_cases(tmp_path)) == [
        ("p1", "dicom", "seg.nii.gz", None),
        ("p2", "p2", None, None),
    ]


def test_series_lie_beside_their_labels(tmp_path: Path, touch: Touch, short: Short) -> None:
    shutil.copytree(shared_data("formats", "dicom", "mr_crop_40"), tmp_path / "p1")
    shutil.copy(shared_data("formats", "dicom", "ct_variable_gaps.zip"), tmp_path / "p2.zip")
    touch("labels/p1.nii.gz", "labels/p2.nii.gz")
    found = find_cases(tmp_path)
    assert found.layout == "beside-labels"
    assert short(found) == [("p1", "p1", "p1.nii.gz", None), ("p2", "p2.zip", "p2.nii.gz", None)]


@pytest.mark.parametrize(
    "name", ["seg", "X_seg", "label-3", "aseg", "X.mask", "X_GT", "laendo", "Segmentation", "mask1"]
)
def test_labels_are_known_by_a_word_of_their_name(name: str) -> None:
    assert is_label(Path(f"{name}.nii.gz"))


@pytest.mark.parametrize("name", ["weight", "X_masked", "lgemri", "segue_t1", "length", "labelled"])
def test_other_names_are_images(name: str) -> None:
    assert not is_label(Path(f"{name}.nii.gz"))


def test_a_label_names_its_own_image_only() -> None:
    label = Path("case10_seg.nii")
    assert names_image(label, Path("case10.nii.gz"))
    assert not names_image(label, Path("case1.nii"))
    assert not names_image(label, Path("case10_flair.nii"))
    assert not names_image(label, label)


def test_nothing_outside_of_the_data_is_taken(tmp_path: Path, touch: Touch, short: Short) -> None:
    touch("data/case1.nii", "data/case1_mask.nii")
    other = tmp_path / "other_patient" / "1.dcm"
    other.parent.mkdir()
    other.write_bytes(bytes(128) + b"DICM")
    assert is_scan(other.parent)
    assert short(find_cases(tmp_path / "data")) == [("case1", "case1.nii", "case1_mask.nii", None)]
