"""images/ and labels/, and what can be wrong with them."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tracoco.errors import UserError
from tracoco.project.layouts import Found, find_cases

Touch = Callable[..., None]
Short = Callable[[Found], list[tuple[object, ...]]]


def test_images_and_labels_are_paired_by_stem(data: Path) -> None:
    cases = find_cases(data).cases
    assert [case.id for case in cases] == ["a", "b", "c", "u", "v"]
    assert [case.label is None for case in cases] == [False, False, False, True, True]
    assert cases[1].images == (data / "images" / "b.nii.gz",)
    assert cases[1].label == data / "labels" / "b.nii.gz"


def test_paths_are_absolute(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_cases(Path("data")) == find_cases(data)


def test_another_folder_of_labels_takes_the_place_of_the_usual_one(
    tmp_path: Path, touch: Touch
) -> None:
    touch("images/a.nii", "images/b.nii", "labels/a.nii", "second_reader/b.nii")
    cases = find_cases(tmp_path, tmp_path / "second_reader").cases
    assert [case.label for case in cases] == [None, tmp_path / "second_reader" / "b.nii"]


def test_channels_lie_in_files_of_their_own(tmp_path: Path, touch: Touch, short: Short) -> None:
    touch(*(f"images/{case}_000{i}.nii" for case in "ab" for i in (1, 0)), "labels/a.nii")
    assert short(find_cases(tmp_path)) == [
        ("a", "a_0000.nii+a_0001.nii", "a.nii", None),
        ("b", "b_0000.nii+b_0001.nii", None, None),
    ]


def test_numbered_scans_are_not_taken_for_channels(tmp_path: Path, touch: Touch) -> None:
    touch(*(f"images/scan_000{i}.nii" for i in range(3)), "labels/scan_0000.nii")
    cases = find_cases(tmp_path).cases
    assert [case.id for case in cases] == ["scan_0000", "scan_0001", "scan_0002"]


def test_a_label_with_a_number_settles_that_numbers_count_scans(
    tmp_path: Path, touch: Touch
) -> None:
    touch("images/scan.nii", "images/scan_0000.nii", "labels/scan.nii", "labels/scan_0000.nii")
    assert [case.id for case in find_cases(tmp_path).cases] == ["scan", "scan_0000"]


def test_a_label_may_lie_inside_the_file_of_its_image(
    tmp_path: Path, write_h5: Touch, short: Short
) -> None:
    write_h5("images/a.h5")
    write_h5("images/b.h5", labelled=False)
    array = np.zeros((2, 2, 2), np.uint8)
    np.savez(tmp_path / "images" / "c.npz", image=array, label=array)
    assert short(find_cases(tmp_path)) == [
        ("a", "a.h5", "a.h5", None),
        ("b", "b.h5", None, None),
        ("c", "c.npz", "c.npz", None),
    ]


def test_hidden_and_other_files_are_passed_over(tmp_path: Path, touch: Touch) -> None:
    touch("images/a.nii", "images/._a.nii", "images/a.json", "labels/a.nii")
    assert len(find_cases(tmp_path).cases) == 1


def test_all_problems_are_named_at_once(tmp_path: Path, touch: Touch) -> None:
    touch("images/liver_12.nii", "images/b.nii", "images/b.nii.gz", "images/?.nii")
    touch("labels/b.nii", "labels/liver_21.nii", "labels/zzz.nii")
    with pytest.raises(UserError) as error:
        find_cases(tmp_path)
    text = str(error.value)
    assert text.startswith("4 problems:")
    assert "case 'b' has several images" in text
    assert "liver_21.nii has no image 'liver_21'; the nearest is 'liver_12'" in text
    assert "zzz.nii has no image 'zzz'; none has a name like it" in text
    assert "case '?' cannot be the name of a file" in text


def test_two_labels_of_one_case_are_refused(tmp_path: Path, touch: Touch) -> None:
    touch("images/a.nii", "labels/a.nii", "labels/a.nii.gz")
    with pytest.raises(UserError, match="case 'a' has several labels"):
        find_cases(tmp_path)


def test_a_channel_in_two_formats_is_refused(tmp_path: Path, touch: Touch) -> None:
    touch("images/a_0000.nii", "images/a_0000.mha", "labels/a.nii")
    with pytest.raises(UserError, match="case 'a' has several images"):
        find_cases(tmp_path)


def test_missing_labels_say_what_was_found(tmp_path: Path, touch: Touch) -> None:
    touch("images/a.nii", "masks/a.nii")
    with pytest.raises(UserError, match=r"no folder labels/ or labelsTr/; it holds images, masks"):
        find_cases(tmp_path)


def test_images_of_unknown_formats_are_named(tmp_path: Path, touch: Touch) -> None:
    touch("images/a.dcm", "labels/a.nii")
    with pytest.raises(UserError, match=r"holds no scan \(\.nii\.gz, .*\); it holds a\.dcm"):
        find_cases(tmp_path)


def test_no_label_at_all_is_refused(tmp_path: Path, touch: Touch) -> None:
    touch("images/a.nii")
    (tmp_path / "labels").mkdir()
    with pytest.raises(UserError, match="labels holds no scan"):
        find_cases(tmp_path)


def test_a_missing_folder_of_labels_is_refused(tmp_path: Path, touch: Touch) -> None:
    touch("images/a.nii")
    with pytest.raises(UserError, match="nowhere is not a folder"):
        find_cases(tmp_path, Path("nowhere"))
