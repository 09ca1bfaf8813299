"""Pairing of files by name; nothing is read, so the files are empty."""

from pathlib import Path

import pytest

from tracoco.errors import UserError
from tracoco.evaluation.evaluate import Pair, pair_files


def touch(folder: Path, *names: str) -> Path:
    folder.mkdir()
    for name in names:
        (folder / name).touch()
    return folder


def test_folders_are_paired_by_stem_in_order(tmp_path: Path) -> None:
    predictions = touch(tmp_path / "predictions", "b.nii.gz", "a.nii.gz")
    truths = touch(tmp_path / "truths", "a.nii", "b.nii.gz")
    assert pair_files(predictions, truths) == (
        [
            Pair("a", predictions / "a.nii.gz", truths / "a.nii"),
            Pair("b", predictions / "b.nii.gz", truths / "b.nii.gz"),
        ],
        [],
    )


def test_two_files_are_a_pair_named_by_the_truth(tmp_path: Path) -> None:
    folder = touch(tmp_path / "folder", "out.nii.gz", "case_07.nii")
    prediction, truth = folder / "out.nii.gz", folder / "case_07.nii"
    assert pair_files(prediction, truth) == ([Pair("case_07", prediction, truth)], [])


def test_other_files_and_hidden_ones_are_no_cases(tmp_path: Path) -> None:
    predictions = touch(tmp_path / "predictions", "a.nii", "scores.json")
    truths = touch(tmp_path / "truths", "a.nii", "._a.nii", ".1234.b.nii.gz")
    pairs, problems = pair_files(predictions, truths)
    assert [pair.case for pair in pairs] == ["a"]
    assert problems == []


def test_what_stays_alone_is_a_problem(tmp_path: Path) -> None:
    predictions = touch(tmp_path / "predictions", "a.nii", "b.nii")
    truths = touch(tmp_path / "truths", "a.nii", "c.nii", "a.nii.gz")
    pairs, problems = pair_files(predictions, truths)
    assert [pair.case for pair in pairs] == ["a"]
    assert len(problems) == 3
    assert "a.nii and a.nii.gz are both 'a'" in problems[0]
    assert "b.nii has no truth" in problems[1]
    assert "c.nii has no prediction" in problems[2]


def test_paths_that_cannot_be_paired(tmp_path: Path) -> None:
    folder = touch(tmp_path / "folder", "a.nii")
    with pytest.raises(UserError, match="missing does not exist"):
        pair_files(tmp_path / "missing", folder)
    with pytest.raises(UserError, match="are a file and a folder"):
        pair_files(folder / "a.nii", folder)
    nothing = touch(tmp_path / "nothing", "readme.txt")
    with pytest.raises(UserError, match="nothing holds no scan"):
        pair_files(folder, nothing)


def test_the_fields_hdf5_files_are_truths_by_their_case(tmp_path: Path) -> None:
    predictions = touch(tmp_path / "predictions", "A.nii.gz", "B.nii.gz")
    truth = tmp_path / "truth"
    truth.mkdir()
    for case in ("A", "B"):
        touch(truth / case, "mri_norm2.h5")
    pairs, problems = pair_files(predictions, truth)
    assert problems == []
    assert [(pair.case, pair.truth) for pair in pairs] == [
        (case, truth / case / "mri_norm2.h5") for case in ("A", "B")
    ]
    (single,), _ = pair_files(predictions / "A.nii.gz", truth / "A" / "mri_norm2.h5")
    assert single.case == "A"


def test_a_folder_of_hdf5_scans_is_no_folder_of_predictions(tmp_path: Path) -> None:
    scans = tmp_path / "scans"
    scans.mkdir()
    touch(scans / "A", "mri_norm2.h5")
    # Scored with itself it would be perfect.
    with pytest.raises(UserError, match="scans holds no scan"):
        pair_files(scans, scans)
