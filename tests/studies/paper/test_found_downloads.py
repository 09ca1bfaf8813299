"""The paper's data sets in each form that they are passed on in, with every case of the lists."""

from collections.abc import Iterable
from pathlib import Path

import h5py
import numpy as np
import pytest
from shared_data import shared_data

from tracoco.errors import UserError
from tracoco.studies.paper.case_lists import PARTS, case_list
from tracoco.studies.paper.downloads import CROPPED, find_paper_data

NUMBERS = [number for number in range(1, 83) if number not in {25, 70}]

SCALED = {"normalisation": "range"}
"""What every recipe says: the paper's release scales to [0, 1]."""


def names(dataset: str) -> list[str]:
    return [name for part in PARTS for name in case_list(dataset, part)]


def touch(*files: Path) -> None:
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()


def write_h5(files: Iterable[Path]) -> None:
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        with h5py.File(file, "w") as arrays:
            arrays["image"], arrays["label"] = np.zeros((2, 2, 2)), np.zeros((2, 2, 2), np.uint8)


def write_la(root: Path) -> Path:
    for name in names("la"):
        folder = root / "Training Set" / name
        touch(folder / "lgemri.nrrd", folder / "laendo.nrrd", folder / "lawall.nrrd")
    return root


def write_pancreas(root: Path, numbers: Iterable[int] = NUMBERS) -> Path:
    for number in numbers:
        touch(root / "Pancreas-CT" / f"PANCREAS_{number:04d}" / "study" / "series" / "1-001.dcm")
        touch(root / "TCIA_pancreas_labels-02-05-2017" / f"label{number:04d}.nii.gz")
    return root


def write_brats(root: Path) -> Path:
    for index, name in enumerate(names("brats19")):
        folder = root / "MICCAI_BraTS_2019_Data_Training" / ("LGG" if index % 3 else "HGG") / name
        touch(*(folder / f"{name}_{kind}.nii.gz" for kind in ("flair", "t1", "t1ce", "t2", "seg")))
    return root


def write_acdc(root: Path, patients: Iterable[int] = range(1, 101)) -> Path:
    for number in patients:
        name = f"patient{number:03d}"
        folder = root / "training" / name
        touch(folder / f"{name}_4d.nii.gz", folder / "Info.cfg")
        for frame in ("01", f"{number % 9 + 8:02d}"):
            touch(folder / f"{name}_frame{frame}.nii.gz")
            touch(folder / f"{name}_frame{frame}_gt.nii.gz")
    return root


def test_left_atrium_as_it_is_downloaded(tmp_path: Path) -> None:
    recipe = find_paper_data("la", write_la(tmp_path))
    assert recipe.splits.labelled == tuple(case_list("la", "train"))
    assert recipe.splits.test == tuple(case_list("la", "test"))
    case = recipe.cases[0]
    assert case.id == "06SR5RBREL16DQ6M8LWS"
    assert case.images == (tmp_path / "Training Set" / case.id / "lgemri.nrrd",)
    assert case.label == tmp_path / "Training Set" / case.id / "laendo.nrrd"
    assert recipe.plan == SCALED | {"spacing_mm": (0.625, 0.625, 0.625)}
    assert recipe.class_names[255] == "left atrium"
    assert recipe.label_crop is not None
    assert recipe.watermark == ""


def test_pancreas_as_it_is_downloaded_has_80_scans_today(tmp_path: Path) -> None:
    recipe = find_paper_data("pancreas", write_pancreas(tmp_path))
    assert len(recipe.cases) == 80
    assert recipe.splits.labelled[:2] == ("image0057", "image0018")
    assert (len(recipe.splits.labelled), len(recipe.splits.test)) == (61, 19)
    assert recipe.cases[0].images == (tmp_path / "Pancreas-CT" / "PANCREAS_0001",)
    assert recipe.cases[0].label is not None
    assert recipe.cases[0].label.name == "label0001.nii.gz"
    assert recipe.plan["window"] == (-125, 275)
    assert recipe.plan["spacing_mm"] == (1, 1, 1)
    assert recipe.watermark == ""
    assert any("without image0025 and image0070" in note for note in recipe.notes)


def test_pancreas_of_before_has_one_patient_in_training_and_test(tmp_path: Path) -> None:
    recipe = find_paper_data("pancreas", write_pancreas(tmp_path, range(1, 83)))
    assert (len(recipe.splits.labelled), len(recipe.splits.test)) == (62, 20)
    assert any("are one patient" in note for note in recipe.notes)
    assert "image0025" in recipe.splits.test
    assert {"image0002", "image0070"} <= set(recipe.splits.labelled)


def test_pancreas_without_another_scan_is_a_part_of_it(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"has 79 of the 82 .*image0001"):
        find_paper_data("pancreas", write_pancreas(tmp_path, NUMBERS[1:]))


def test_brats_takes_flair_of_both_folders_and_the_whole_tumour(tmp_path: Path) -> None:
    recipe = find_paper_data("brats19", write_brats(tmp_path))
    splits = recipe.splits
    assert (len(splits.labelled), len(splits.validation), len(splits.test)) == (250, 25, 60)
    assert splits.labelled[0] == "BraTS19_TCIA02_370_1"
    assert all(case.images[0].name == f"{case.id}_flair.nii.gz" for case in recipe.cases)
    assert all(case.label and case.label.name == f"{case.id}_seg.nii.gz" for case in recipe.cases)
    assert recipe.whole
    assert recipe.class_names == {1: "whole tumour"}


def test_acdc_frames_get_the_names_of_the_lists_and_stay_with_their_patient(tmp_path: Path) -> None:
    recipe = find_paper_data("acdc", write_acdc(tmp_path))
    splits = recipe.splits
    assert (len(splits.labelled), len(splits.validation), len(splits.test)) == (140, 20, 40)
    assert splits.labelled[:2] == ("patient099_frame01", "patient099_frame02")
    files = {case.id: case for case in recipe.cases}
    second = files["patient005_frame02"]
    assert second.images[0].name == "patient005_frame13.nii.gz"
    assert second.label is not None
    assert second.label.name == "patient005_frame13_gt.nii.gz"
    assert second.group == "patient005"
    slices = {"dimensions": 2, "slice_axis": 2, "spacing_mm": (None, None, None)}
    assert recipe.plan == SCALED | slices
    assert recipe.class_names == {1: "RV", 2: "Myo", 3: "LV"}


def test_acdc_patients_that_the_paper_does_not_use_are_left_out_and_named(tmp_path: Path) -> None:
    recipe = find_paper_data("acdc", write_acdc(tmp_path, range(1, 151)))
    assert len(recipe.cases) == 200
    assert any("patient101_frame01" in note and "95 more" in note for note in recipe.notes)


def test_a_patient_with_another_number_of_frames_is_refused(tmp_path: Path) -> None:
    write_acdc(tmp_path)
    touch(tmp_path / "training" / "patient003" / "patient003_frame30.nii.gz")
    with pytest.raises(UserError, match="patient003 has 3 frames"):
        find_paper_data("acdc", tmp_path)


@pytest.mark.parametrize(
    ("dataset", "file", "plan", "mark"),
    [
        ("la", "{}/mri_norm2.h5", {}, CROPPED),
        ("pancreas", "Pancreas/{}_norm.h5", {}, CROPPED),
        ("brats19", "data/{}.h5", {}, ""),
        ("acdc", "data/{}.h5", {"dimensions": 2, "slice_axis": 0}, ""),
    ],
)
def test_the_communitys_files_are_found(
    dataset: str, file: str, plan: dict[str, int], mark: str, tmp_path: Path
) -> None:
    write_h5(tmp_path / file.format(name) for name in names(dataset))
    write_h5([tmp_path / "data" / "slices" / "patient099_frame01_slice_1.h5"])
    recipe = find_paper_data(dataset, tmp_path)
    assert len(recipe.cases) == len(names(dataset))
    assert recipe.splits.labelled == tuple(case_list(dataset, "train"))
    assert all(case.label == case.images[0] for case in recipe.cases)
    assert (recipe.plan, recipe.watermark, recipe.whole) == (SCALED | plan, mark, False)
    assert recipe.label_crop is None  # not to be cropped, or cropped already
    assert any("nothing of the spacing" in note for note in recipe.notes)
    if dataset == "acdc":
        assert recipe.cases[0].group == "patient001"


def test_a_part_of_the_data_is_refused_unless_it_is_asked_for_and_then_marked(
    tmp_path: Path,
) -> None:
    train, test = case_list("la", "train"), case_list("la", "test")
    for name in (*train[3:7], test[4]):
        touch(tmp_path / name / "lgemri.nrrd", tmp_path / name / "laendo.nrrd")
    with pytest.raises(UserError) as caught:
        find_paper_data("la", tmp_path)
    assert "has 5 of the 100 scans of la" in str(caught.value)
    assert f"missing: {train[0]}, " in str(caught.value)
    assert "and 90 more" in str(caught.value)
    assert "--partial" in str(caught.value)
    recipe = find_paper_data("la", tmp_path, partial=True)
    assert recipe.splits.labelled == tuple(train[3:7])
    assert recipe.splits.test == (test[4],)
    assert recipe.watermark == "not the paper's data: 5 of its 100 scans"


def test_a_training_scan_without_a_label_is_unlabelled_a_test_scan_is_an_error(
    tmp_path: Path,
) -> None:
    write_la(tmp_path)
    train, test = case_list("la", "train"), case_list("la", "test")
    (tmp_path / "Training Set" / train[0] / "laendo.nrrd").unlink()
    recipe = find_paper_data("la", tmp_path)
    assert recipe.splits.unlabelled == (train[0],)
    assert len(recipe.splits.labelled) == 79
    (tmp_path / "Training Set" / test[0] / "laendo.nrrd").unlink()
    with pytest.raises(UserError, match=f"{test[0]} of la have no label"):
        find_paper_data("la", tmp_path)


def test_other_data_is_told_apart(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no scan of la"):
        find_paper_data("la", tmp_path)
    touch(tmp_path / "somebody" / "lgemri.nrrd")
    with pytest.raises(UserError, match=r"somebody .*none of which is in the lists of la"):
        find_paper_data("la", tmp_path, partial=True)
    with pytest.raises(UserError, match="is not a folder"):
        find_paper_data("la", tmp_path / "nowhere")
    with pytest.raises(UserError, match=r"no data set 'brats'.* 'brats19'"):
        find_paper_data("brats", tmp_path)


def test_two_copies_of_a_case_are_refused(tmp_path: Path) -> None:
    name = case_list("la", "train")[0]
    touch(tmp_path / "one" / name / "lgemri.nrrd", tmp_path / "two" / name / "lgemri.nrrd")
    with pytest.raises(UserError, match=f"{name} is there more than once"):
        find_paper_data("la", tmp_path, partial=True)


@pytest.mark.parametrize(
    ("dataset", "counts"), [("la", (80, 0, 0)), ("acdc", (140, 20, 0)), ("brats19", (50, 10, 0))]
)
def test_real_files_of_the_community(dataset: str, counts: tuple[int, int, int]) -> None:
    recipe = find_paper_data(dataset, shared_data(dataset, "half"), partial=True)
    splits = recipe.splits
    assert (len(splits.labelled), len(splits.validation), len(splits.test)) == counts
    assert splits.labelled[0] == case_list(dataset, "train")[0]
    assert recipe.watermark.startswith("not the paper's data")
