"""Projects of real data, made here of small scans that lie as the real ones do."""

from pathlib import Path

import h5py
import numpy as np
import pytest
from benchmarks.real.data_sets import DATA_SETS
from benchmarks.real.projects import make_real_project, proposal
from samples import write_scan
from shared_data import shared_data

from tracoco.errors import UserError
from tracoco.files import write_text
from tracoco.presets import load_config
from tracoco.scans.reader import read_grid, read_image, read_label

COUNTS = {
    "la": (64, 16),
    "acdc": (140, 20),
    "brats19": (40, 10),
    "btcv-pancreas": (16, 4),
    "hippocampus": (180, 40),
    "la-tuning": (48, 16),
    "acdc-tuning": (120, 20),
    "brats19-tuning": (30, 10),
    "btcv-pancreas-tuning": (10, 6),
    "hippocampus-tuning": (160, 20),
}
"""Labelled and test cases of the real data."""
WRITTEN = ("la", "la-tuning", "brats19", "brats19-tuning")
"""Scans that are written anew, which takes a while."""


def write_h5(path: Path, seed: int, classes: int = 2) -> None:
    random = np.random.default_rng(seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        file["image"] = random.random((9, 12, 6)).astype(np.float16)
        file["label"] = random.integers(classes, size=(9, 12, 6)).astype(np.uint8)


def test_a_list_keeps_its_order_and_scans_get_their_spacing(tmp_path: Path) -> None:
    names = [f"case{(7 * number) % 18:02d}" for number in range(18)]
    assert names != sorted(names)
    for number, name in enumerate(names):
        write_h5(tmp_path / "la" / "half" / name / "mri_norm2.h5", number)
    write_text(tmp_path / "la" / "train.list", "\n".join(names) + "\n")

    project = make_real_project("la", tmp_path, tmp_path / "out")
    splits, plan = project.load_splits(), project.load_plan()
    assert (splits.labelled, splits.test) == (tuple(names[:2]), tuple(names[2:]))
    assert plan.spacing_mm == (1.875, 1.875, 1.875)
    assert plan.crop == load_config("la-cpu").data.crop
    assert plan.class_names == ("background", "left atrium")
    assert "cropped" in project.load_origin().watermark

    case = next(case for case in project.load_cases() if case.id == names[0])
    source = tmp_path / "la" / "half" / names[0] / "mri_norm2.h5"
    assert case.label is not None
    assert read_grid(case.images[0]).spacing_mm == pytest.approx((1.25, 1.25, 1.25))
    np.testing.assert_array_equal(read_image(case.images[0]).array, read_image(source).array)
    np.testing.assert_array_equal(read_label(case.label).array, read_label(source).array)
    # 9 x 12 x 6 voxels of 1.25 mm are 6 x 8 x 4 of 1.875 mm.
    stored = np.load(project.store_root / f"{names[0]}.image.npy", mmap_mode="r")
    assert stored.shape[-3:] == (6, 8, 4)


def test_slices_are_along_the_first_axis_and_patients_stay_together(tmp_path: Path) -> None:
    training, validation = ["patient9_frame01", "patient9_frame02"], ["patient2_frame01"]
    for number, name in enumerate(training + validation):
        write_h5(tmp_path / "acdc" / "half" / "data" / f"{name}.h5", number, classes=4)
    write_text(tmp_path / "acdc" / "train.list", "\n".join(training))
    write_text(tmp_path / "acdc" / "val.list", "\n".join(validation))

    project = make_real_project("acdc", tmp_path, tmp_path / "out")
    plan = project.load_plan()
    assert (plan.dimensions, plan.slice_axis) == (2, 0)
    assert plan.crop == (1, *(load_config("acdc-cpu").data.crop or ()))
    assert plan.class_names == ("background", "RV", "Myo", "LV")
    assert [case.group for case in project.load_cases()] == ["patient2", "patient9", "patient9"]
    assert any("distances count voxels" in note for note in project.load_origin().notes)


def test_a_patient_in_both_lists_is_refused(tmp_path: Path) -> None:
    for number in (1, 2):
        write_h5(tmp_path / "acdc" / "half" / "data" / f"patient9_frame0{number}.h5", number)
    write_text(tmp_path / "acdc" / "train.list", "patient9_frame01")
    write_text(tmp_path / "acdc" / "val.list", "patient9_frame02")
    with pytest.raises(UserError, match="patient9"):
        make_real_project("acdc", tmp_path, tmp_path / "out")


def test_what_is_there_stays_and_what_is_missing_is_prepared(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    for number in range(6):
        for folder, most in (("imagesTr", 255), ("labelsTr", 2)):
            array = random.integers(most, size=(9, 8, 6)).astype(np.uint8)
            write_scan(tmp_path / "btcv_pancreas" / folder / f"pancreas_{number}.nii.gz", array)
    project = make_real_project("btcv-pancreas", tmp_path, tmp_path / "out")
    assert project.load_plan().window == (None,)
    assert project.load_splits().labelled == ("pancreas_0", "pancreas_1")

    edited = project.plan_file.read_text().replace("high_percentile: 99.5", "high_percentile: 99.0")
    write_text(project.plan_file, edited)
    lost = project.store_root / "pancreas_3.image.npy"
    lost.unlink()
    make_real_project("btcv-pancreas", tmp_path, tmp_path / "out")
    assert project.plan_file.read_text() == edited
    assert lost.is_file()


def test_data_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"train\.list does not exist"):
        make_real_project("la", tmp_path, tmp_path / "out")
    with pytest.raises(UserError, match="did you mean 'acdc'"):
        make_real_project("acd", tmp_path, tmp_path / "out")


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.slow] if n in WRITTEN else []) for n in DATA_SETS],
)
def test_the_real_scans_are_all_found(name: str, tmp_path: Path) -> None:
    proposed = proposal(DATA_SETS[name], shared_data(), tmp_path)
    assert (len(proposed.splits.labelled), len(proposed.splits.test)) == COUNTS[name]
    assert len(proposed.cases) == sum(COUNTS[name])
    assert all(case.label and case.label.is_file() for case in proposed.cases)
