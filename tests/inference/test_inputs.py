"""Which scans a file, a folder or a project stands for, and where their labels go."""

import zipfile
from pathlib import Path

import numpy as np
import pytest
from samples import write_scan
from scans.dicom_samples import write_series

from tracoco.errors import UserError
from tracoco.inference.predict import planned_predictions
from tracoco.processes import parse_shard, shard_of


def touch(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).touch()
    return folder


def names(source: Path, channels: int = 1) -> dict[str, list[str]]:
    planned = planned_predictions(source, source.parent / "out", channels)
    assert all(case.prediction.name == f"{case.case}.nii.gz" for case in planned)
    return {case.case: [image.name for image in case.images] for case in planned}


def test_what_goes_where(tmp_path: Path) -> None:
    images = touch(tmp_path / "images", "b.nii.gz", "a.nii", "c.mha", "notes.txt", "._d.nii.gz")
    assert names(images) == {"a": ["a.nii"], "b": ["b.nii.gz"], "c": ["c.mha"]}
    single = planned_predictions(images / "a.nii", tmp_path / "x.nrrd")
    assert (single[0].case, single[0].prediction) == ("x", tmp_path / "x.nrrd")
    folder = planned_predictions(images / "c.mha", tmp_path / "out")
    assert folder[0].prediction == tmp_path / "out" / "c.nii.gz"


@pytest.mark.parametrize("content", [[], ["a.nii", "a.nii.gz"]])
def test_a_folder_without_scans_or_with_two_of_a_name_is_refused(
    tmp_path: Path, content: list[str]
) -> None:
    with pytest.raises(UserError, match="holds"):
        planned_predictions(touch(tmp_path / "in", *content), tmp_path / "out")
    with pytest.raises(UserError, match="does not exist"):
        planned_predictions(tmp_path / "nowhere", tmp_path / "out")


def test_a_format_that_is_not_written_is_refused_before_the_work(tmp_path: Path) -> None:
    source = touch(tmp_path / "in", "a.nii", "b.nii")
    with pytest.raises(UserError, match=r"out\.mgz: labels are written as \.nii\.gz"):
        planned_predictions(source / "a.nii", tmp_path / "out.mgz")
    with pytest.raises(UserError, match=r"is a folder, and x\.nii\.gz the name of one file"):
        planned_predictions(source, tmp_path / "x.nii.gz")


def test_a_dicom_series_is_one_scan_and_a_folder_of_series_are_several(tmp_path: Path) -> None:
    series = write_series(tmp_path / "patients" / "one")
    write_series(tmp_path / "patients" / "two" / "deeper")
    assert names(series) == {"one": ["one"]}
    with zipfile.ZipFile(tmp_path / "patients" / "three.zip", "w") as archive:
        for file in series.iterdir():
            archive.write(file, file.name)
    write_scan(tmp_path / "patients" / "four.nii.gz", np.zeros((2, 2, 2), np.float32))
    found = names(tmp_path / "patients")
    assert found == {
        "one": ["one"],
        "two": ["two"],
        "three": ["three.zip"],
        "four": ["four.nii.gz"],
    }
    assert names(tmp_path / "patients" / "three.zip") == {"three": ["three.zip"]}


def test_a_series_in_several_folders_is_one_scan(tmp_path: Path) -> None:
    spread = write_series(tmp_path / "spread", name="folder{0}/{0}.dcm".format)
    planned = planned_predictions(spread, tmp_path / "out")
    assert [(case.case, case.images) for case in planned] == [("spread", (spread,))]
    assert planned_predictions(spread, tmp_path / "x.nrrd")[0].prediction == tmp_path / "x.nrrd"
    # Beside another scan nothing says that the folders belong together.
    write_scan(spread / "other.nii.gz", np.zeros((2, 2, 2), np.float32))
    assert list(names(spread)) == ["folder0", "folder1", "folder2", "folder3", "other"]


def test_channel_files_are_one_scan_where_their_numbers_are_those_of_the_channels(
    tmp_path: Path,
) -> None:
    pairs = touch(tmp_path / "pairs", *(f"{c}_{n:04d}.nii" for c in "ab" for n in (1, 0)))
    both = {"a": ["a_0000.nii", "a_0001.nii"], "b": ["b_0000.nii", "b_0001.nii"]}
    assert names(pairs, channels=2) == both
    # With one channel these are four scans whose names happen to end in digits.
    assert list(names(pairs, channels=1)) == ["a_0000", "a_0001", "b_0000", "b_0001"]
    assert list(names(pairs, channels=3)) == ["a_0000", "a_0001", "b_0000", "b_0001"]
    alone = touch(tmp_path / "alone", "a_0000.nii", "b_0001.nii")
    assert names(alone) == {"a": ["a_0000.nii"], "b_0001": ["b_0001.nii"]}
    taken = touch(tmp_path / "taken", "a_0000.nii", "a.nii")
    assert list(names(taken)) == ["a", "a_0000"]


def test_shards_have_every_case_once(tmp_path: Path) -> None:
    source = touch(tmp_path / "in", *(f"{index}.nii" for index in range(7)))
    cases = planned_predictions(source, tmp_path / "out")
    parts = [shard_of(cases, (part, 3)) for part in (1, 2, 3)]
    assert [len(part) for part in parts] == [3, 2, 2]
    assert sorted(case.case for part in parts for case in part) == list("0123456")
    assert shard_of(cases[:1], (2, 2)) == []


@pytest.mark.parametrize("text", ["0/4", "5/4", "4", "a/b", "1/0", "-1/2", "1/2/3"])
def test_a_part_that_does_not_exist_is_refused(text: str) -> None:
    assert parse_shard("4/4") == (4, 4)
    with pytest.raises(UserError, match=f"--shard {text} is no part"):
        parse_shard(text)


def test_the_fields_hdf5_files_are_called_by_their_case(tmp_path: Path) -> None:
    atrium = tmp_path / "half" / "2018LA_Seg_Training Set"
    for case in ("B", "A"):
        touch(atrium / case, "mri_norm2.h5", "._mri_norm2.h5")
    for source in (atrium, tmp_path / "half"):
        assert names(source) == {"A": ["mri_norm2.h5"], "B": ["mri_norm2.h5"]}
    # A single one of them, as a folder or as a file.
    assert names(atrium / "A") == {"A": ["mri_norm2.h5"]}
    single = planned_predictions(atrium / "B" / "mri_norm2.h5", tmp_path / "out")
    assert (single[0].case, single[0].prediction) == ("B", tmp_path / "out" / "B.nii.gz")


def test_hdf5_volumes_below_a_folder_are_found_without_their_slices(tmp_path: Path) -> None:
    touch(tmp_path / "ACDC" / "data", "patient002_frame01.h5", "patient001_frame01.h5")
    touch(tmp_path / "ACDC" / "data" / "slices", "patient001_frame01_slice_1.h5")
    assert list(names(tmp_path / "ACDC")) == ["patient001_frame01", "patient002_frame01"]
    touch(tmp_path / "Pancreas" / "data", "image0001_norm.h5")
    assert names(tmp_path / "Pancreas") == {"image0001": ["image0001_norm.h5"]}
    # The same case has the same name, whichever folder is given.
    assert list(names(tmp_path / "Pancreas" / "data")) == ["image0001"]
    touch(tmp_path / "Pancreas" / "copy", "image0001.h5")
    with pytest.raises(UserError, match="has case 'image0001' more than once"):
        names(tmp_path / "Pancreas")
    touch(tmp_path / "slices_only" / "data" / "slices", "patient001_frame01_slice_1.h5")
    with pytest.raises(UserError, match="holds no scans"):
        names(tmp_path / "slices_only")
