"""BIDS folders: sessions as cases, kinds of images as channels, labels of derivatives."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tracoco.errors import UserError
from tracoco.project.layouts import Found, find_cases

Touch = Callable[..., None]
Short = Callable[[Found], list[tuple[object, ...]]]


def test_sessions_are_cases_and_subjects_are_groups(
    tmp_path: Path, touch: Touch, short: Short
) -> None:
    for session in ("sub-01/ses-1", "sub-01/ses-2", "sub-02/ses-1"):
        stem = session.replace("/", "_")
        touch(f"{session}/anat/{stem}_T1w.nii.gz", f"{session}/anat/{stem}_FLAIR.nii.gz")
        touch(f"{session}/anat/{stem}_T1w.json", f"{session}/func/{stem}_task-rest_bold.nii.gz")
    label = "derivatives/manual/sub-01/ses-2/anat/sub-01_ses-2_space-orig_dseg.nii.gz"
    touch(label, "dataset_description.json", "participants.tsv")
    found = find_cases(tmp_path)
    assert found.layout == "bids"
    assert short(found) == [
        ("sub-01_ses-1", "sub-01_ses-1_FLAIR.nii.gz+sub-01_ses-1_T1w.nii.gz", None, "sub-01"),
        (
            "sub-01_ses-2",
            "sub-01_ses-2_FLAIR.nii.gz+sub-01_ses-2_T1w.nii.gz",
            "sub-01_ses-2_space-orig_dseg.nii.gz",
            "sub-01",
        ),
        ("sub-02_ses-1", "sub-02_ses-1_FLAIR.nii.gz+sub-02_ses-1_T1w.nii.gz", None, "sub-02"),
    ]
    assert found.notes == ("channels, in this order: FLAIR, T1w",)


def test_images_that_some_sessions_lack_are_left_out_and_told(
    tmp_path: Path, touch: Touch, short: Short
) -> None:
    touch("sub-1/anat/sub-1_T1w.nii", "sub-1/anat/sub-1_acq-hires_T2w.nii")
    touch("sub-2/anat/sub-2_T1w.nii", "sub-2/anat/sub-2_defacemask.nii")
    found = find_cases(tmp_path)
    assert short(found) == [
        ("sub-1", "sub-1_T1w.nii", None, None),
        ("sub-2", "sub-2_T1w.nii", None, None),
    ]
    assert found.notes[1] == "images that some sessions lack are left out: acq-hires_T2w"


def test_without_a_common_image_the_counts_are_told(tmp_path: Path, touch: Touch) -> None:
    touch("sub-1/anat/sub-1_T1w.nii", "sub-2/anat/sub-2_FLAIR.nii")
    with pytest.raises(UserError, match=r"in all 2 sessions: T1w \(1 of 2\), FLAIR \(1 of 2\)"):
        find_cases(tmp_path)


def test_a_label_in_another_space_is_left_out_and_told(tmp_path: Path, touch: Touch) -> None:
    touch("sub-1/anat/sub-1_T1w.nii", "derivatives/x/sub-1/anat/sub-1_space-MNI_dseg.nii")
    touch("sub-2/anat/sub-2_T1w.nii", "derivatives/x/sub-2/anat/sub-2_space-T1w_mask.nii")
    found = find_cases(tmp_path)
    assert [case.label.name if case.label else None for case in found.cases] == [
        None,
        "sub-2_space-T1w_mask.nii",
    ]
    assert found.notes[1] == "1 label in another space than the image: left out"


def test_a_segmentation_goes_before_a_mask_and_two_are_refused(
    tmp_path: Path, touch: Touch
) -> None:
    touch("sub-1/anat/sub-1_T1w.nii", "derivatives/a/sub-1/sub-1_desc-brain_mask.nii")
    touch("derivatives/a/sub-1/sub-1_dseg.nii")
    (case,) = find_cases(tmp_path).cases
    assert case.label == tmp_path / "derivatives/a/sub-1/sub-1_dseg.nii"
    touch("derivatives/b/sub-1/sub-1_dseg.nii")
    with pytest.raises(UserError, match=r"session 'sub-1' has several labels: .*keep one of them"):
        find_cases(tmp_path)


def test_names_come_from_the_nearest_table(tmp_path: Path, touch: Touch) -> None:
    touch("sub-1/anat/sub-1_T1w.nii", "derivatives/a/sub-1/sub-1_dseg.nii")
    table = tmp_path / "derivatives" / "a" / "dseg.tsv"
    table.write_text("index\tname\tcolor\n1\tleft ventricle\t#ff0000\n2\t\t\n3\tmyocardium\t\n")
    (tmp_path / "dseg.tsv").write_text("index\tname\n1\twrong\n")
    assert find_cases(tmp_path).class_names == {1: "left ventricle", 3: "myocardium"}
    table.write_text("value\tname\n1\tx\n")
    with pytest.raises(UserError, match=r"dseg.tsv is not a table with the columns index and name"):
        find_cases(tmp_path)


def test_other_folders_are_not_taken_for_it(tmp_path: Path, touch: Touch) -> None:
    touch("images/sub-1.nii", "labels/sub-1.nii")
    assert find_cases(tmp_path).layout == "images-labels"
