import shutil
from dataclasses import replace
from pathlib import Path

import h5py
import nibabel
import numpy as np
import pytest
from samples import SHAPE, write_ball, write_balls, write_scan

from tracoco.errors import UserError
from tracoco.files import read_json, write_json
from tracoco.project import labels as label_reading
from tracoco.project import survey
from tracoco.project.check import check as needs
from tracoco.project.check.check import Checked, check, disk_rows, gather
from tracoco.project.check.data_set import set_rows
from tracoco.project.check.problems import check_case
from tracoco.project.create import init_project
from tracoco.project.folder import Project
from tracoco.project.plan import write_plan
from tracoco.scans.reader import read_label
from tracoco.scans.scan import LabelScan


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Four labelled cases, three unlabelled, nothing wrong with any."""
    return write_balls(tmp_path / "data", labelled=4, unlabelled=3)


def checked(path: Path) -> Checked:
    return check(gather(path), workers=1)


def found(path: Path) -> list[tuple[str, str, str]]:
    """Severity, case and problem of each row."""
    return [(row.severity, row.case, row.problem) for row in checked(path).rows]


def image(data: Path, case: int) -> Path:
    return data / "images" / f"case{case:03d}.nii.gz"


def label(data: Path, case: int) -> Path:
    return data / "labels" / f"case{case:03d}.nii.gz"


def ball(value: int = 1) -> np.ndarray:
    voxels = np.zeros(SHAPE, dtype=np.int16)
    voxels[5:10, 5:10, 5:10] = value
    return voxels


def test_sound_scans_have_no_rows_before_init_and_after(data: Path, tmp_path: Path) -> None:
    assert checked(data).rows == ()
    assert checked(data).exit_code == 0
    project = init_project(data, tmp_path / "project", validation=1)
    assert checked(project.root).rows == ()


def test_a_path_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not exist"):
        gather(tmp_path / "nothing")


def test_a_folder_of_no_known_layout_is_one_row(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing here")
    ((severity, _, _),) = [row for row in found(tmp_path) if row[0] == "error"]
    assert severity == "error"


def test_all_problems_are_found_at_once(data: Path) -> None:
    image(data, 5).write_bytes(b"nonsense")
    spoilt = np.zeros(SHAPE, dtype=np.float32)
    spoilt[0, 0, 0] = np.nan
    write_scan(image(data, 4), spoilt)
    write_scan(image(data, 0), np.full(SHAPE, 3, dtype=np.float32))
    write_scan(label(data, 1), ball(), spacing=(2, 2, 2))
    write_scan(label(data, 2), ball(-1))
    rows = found(data)
    assert [(severity, case) for severity, case, _ in rows] == [
        ("error", f"case00{number}") for number in (0, 1, 2, 4, 5)
    ]
    words = ("3 everywhere", "voxels away", "from -1 to 0", "1 NaN", "not a NIfTI")
    assert all(word in row[2] for word, row in zip(words, rows, strict=True))
    assert checked(data).exit_code == 2


def test_a_row_says_file_and_way_out(data: Path) -> None:
    write_scan(label(data, 2), ball() + np.float32(0.5))
    (row,) = checked(data).rows
    assert (row.file, row.problem[:18]) == (str(label(data, 2)), "is not a label map")
    assert row.fix.startswith("Resample labels by nearest neighbour")


def test_an_image_in_the_place_of_a_label_has_too_many_values(data: Path) -> None:
    write_scan(label(data, 2), np.arange(np.prod(SHAPE), dtype=np.int32).reshape(SHAPE))
    ((severity, case, problem),) = found(data)
    assert (severity, case) == ("error", "case002")
    assert f"{np.prod(SHAPE)} values from 0" in problem


def test_an_empty_label_is_a_warning(data: Path) -> None:
    write_scan(label(data, 3), np.zeros(SHAPE, dtype=np.uint8))
    assert found(data) == [("warning", "case003", "the label is empty: 0 everywhere")]
    assert checked(data).exit_code == 1


def test_a_label_at_the_edge_is_a_warning_that_names_the_sides(data: Path) -> None:
    voxels = ball()
    voxels[0, 5, 5] = voxels[5, 5, -1] = 1
    write_scan(label(data, 3), voxels)
    ((severity, case, problem),) = found(data)
    assert (severity, case) == ("warning", "case003")
    assert problem.endswith("edge of the scan: left, head")


def with_margin(data: Path, case: int) -> None:
    """A scan of which the first 5 voxels along the first axis are -7."""
    voxels = np.asarray(nibabel.Nifti1Image.from_filename(image(data, case)).dataobj).copy()
    voxels[:5] = -7
    write_scan(image(data, case), voxels)


def test_labelled_voxels_in_a_constant_margin_are_counted(data: Path, tmp_path: Path) -> None:
    project = init_project(data, tmp_path / "project")
    with_margin(data, 1)
    voxels = np.zeros(SHAPE, dtype=np.int16)
    voxels[3:10, 5:10, 5:10] = 1  # 2 layers of 5 x 5 lie in the margin
    write_scan(label(data, 1), voxels)
    problem = "50 labelled voxels lie in the image's constant margin, which is left out"
    assert found(data) == [("warning", "case001", problem)]
    assert found(project.root) == [("warning", "case001", problem)]
    plan = project.load_plan().model_copy(update={"crop_to_content": False})
    write_plan(project.plan_file, plan)
    assert found(project.root) == []


def test_what_is_left_out_takes_no_disk(data: Path, tmp_path: Path) -> None:
    project = init_project(data, tmp_path / "project")
    before = checked(project.root).needs.disk_bytes
    with_margin(data, 6)
    # 5 layers of an unlabelled scan less, at 4 bytes a voxel.
    assert before - checked(project.root).needs.disk_bytes == 5 * SHAPE[1] * SHAPE[2] * 4
    assert before - checked(data).needs.disk_bytes == 5 * SHAPE[1] * SHAPE[2] * 4


def test_in_slices_a_structure_may_end_with_the_last_slice(data: Path, tmp_path: Path) -> None:
    voxels = ball()
    voxels[5, 5, -1] = 1  # along the slices of 2 mm
    write_scan(label(data, 3), voxels)
    project = init_project(data, tmp_path / "project", dimensions=2)
    assert not [row for row in found(project.root) if "edge" in row[2]]


def test_the_same_image_twice_is_a_warning(data: Path) -> None:
    shutil.copy(image(data, 0), image(data, 1))
    shutil.copy(image(data, 2), image(data, 5))
    assert found(data) == [
        ("warning", "case001", "the same voxels as case 'case000'"),
        ("warning", "case005", "the same voxels as case 'case002'"),
    ]


def test_the_same_image_in_training_and_test_is_an_error(data: Path, tmp_path: Path) -> None:
    project = init_project(data, tmp_path / "project", test=1)
    (kept,) = project.load_splits().test
    shutil.copy(data / "images" / f"{kept}.nii.gz", image(data, 5))
    ((severity, _, problem),) = found(project.root)
    assert severity == "error"
    assert problem == f"the same voxels as case '{kept}' (test; this one is unlabelled)"


def test_copies_are_found_in_other_files_of_the_same_voxels(data: Path) -> None:
    voxels = nibabel.load(image(data, 4))
    nibabel.save(voxels, data / "images" / "copy.nii")
    assert [row[:2] for row in found(data)] == [("warning", "copy")]


def test_a_spacing_and_a_size_far_from_the_others_are_warnings(data: Path) -> None:
    random = np.random.default_rng(0)
    write_scan(image(data, 5), random.random((26, 24, 20), np.float32), spacing=(1, 1, 0.5))
    write_scan(image(data, 6), random.random((26, 24, 65), np.float32))
    rows = found(data)
    assert [row[:2] for row in rows] == [
        ("warning", "case005"),
        ("warning", "case005"),
        ("warning", "case006"),
    ]
    assert "spacing of 1 x 1 x 0.5 mm is far from the median, 1 x 1 x 2 mm" in rows[0][2]
    assert "size of 26 x 24 x 10 mm" in rows[1][2]
    assert "size of 26 x 24 x 130 mm" in rows[2][2]


def test_a_case_with_other_channels_is_an_error(data: Path, tmp_path: Path) -> None:
    project = init_project(data, tmp_path / "project")
    voxels = np.random.default_rng(0).random((*SHAPE, 2), np.float32)
    write_scan(image(data, 5), voxels)
    assert found(data) == [("error", "case005", "has 2 channels, most scans 1")]
    ((severity, case, problem),) = found(project.root)
    assert (severity, case, problem) == ("error", "case005", "has 2 channels, the plan 1")


def test_values_that_the_plan_does_not_know_are_errors(data: Path, tmp_path: Path) -> None:
    project = init_project(data, tmp_path / "project")
    write_scan(label(data, 3), ball(4))
    rows = found(project.root)
    assert ("error", "case003", "has the values 4; the plan has 0, 1") in rows


def test_few_labels_no_unlabelled_scans_and_rare_classes_are_warnings(tmp_path: Path) -> None:
    root = write_balls(tmp_path / "data", labelled=2, unlabelled=0)
    assert [row[2][:10] for row in found(root)] == ["2 labelled", "no unlabel"]
    for index in range(2, 5):
        write_ball(root, f"case{index:03d}", index, labelled=True)
    write_ball(root, "extra", 9, labelled=False)
    voxels = ball()
    voxels[6, 6, 6] = 2
    write_scan(label(root, 0), voxels)
    assert found(root) == [
        ("warning", "", "of 5 labelled cases, few have some classes: 'label 2' 1")
    ]


def test_scans_no_larger_than_the_crop_have_no_room(data: Path, tmp_path: Path) -> None:
    project = init_project(data, tmp_path / "project")
    plan = project.load_plan()
    text = project.plan_file.read_text(encoding="utf-8")
    old = f"crop: [{', '.join(map(str, plan.crop))}]"
    assert old in text
    project.plan_file.write_text(text.replace(old, "crop: [32, 24, 24]"), encoding="utf-8")
    rows = found(project.root)
    assert len(rows) == 7
    assert "26 x 24 x 20 voxels, the crop has 32 x 24 x 24" in rows[0][2]
    project.plan_file.write_text(text.replace(old, "crop: [32, 16, 24]"), encoding="utf-8")
    assert found(project.root) == []


def test_a_split_that_cannot_be_used_is_a_row_and_no_label_is_opened(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = init_project(data, tmp_path / "project")
    splits = read_json(project.splits_file)
    splits["test"] = splits["labelled"][:1]
    write_json(project.splits_file, splits)
    monkeypatch.setattr(label_reading, "read_label", _never)
    rows = checked(project.root).rows
    assert (rows[0].severity, rows[0].file) == ("error", str(project.splits_file))
    assert "labelled and test cases overlap" in rows[0].problem
    assert len(gather(project.root).cases) == 7  # their images are looked at all the same


def test_a_group_in_two_parts_is_an_error(data: Path, tmp_path: Path) -> None:
    project = init_project(data, tmp_path / "project", test=1)
    cases = read_json(project.cases_file)
    for row in cases["cases"]:
        row["group"] = "one person" if row["label"] else None
    write_json(project.cases_file, cases)
    (row,) = [row for row in checked(project.root).rows if row.severity == "error"]
    assert "group 'one person' is in two parts" in row.problem


def test_a_plan_that_cannot_be_read_is_a_row(data: Path, tmp_path: Path) -> None:
    project = init_project(data, tmp_path / "project")
    project.plan_file.write_text("crop: [1", encoding="utf-8")
    (row,) = checked(project.root).rows
    assert (row.severity, row.file) == ("error", str(project.plan_file))


def _never(path: Path) -> LabelScan:
    raise AssertionError(f"{path} was opened")


def test_labels_of_unlabelled_cases_stay_closed(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = init_project(data, tmp_path / "project")
    splits = read_json(project.splits_file)
    hidden = splits["labelled"].pop()
    splits["unlabelled"].append(hidden)
    write_json(project.splits_file, splits)
    opened: list[Path] = []

    def read(path: Path) -> LabelScan:
        opened.append(path)
        return read_label(path)

    monkeypatch.setattr(label_reading, "read_label", read)
    checked(project.root)
    assert len(opened) == 3
    assert not [path for path in opened if hidden in path.name]


def test_a_file_without_a_spacing_is_a_warning(tmp_path: Path) -> None:
    for index in range(4):
        with h5py.File(tmp_path / f"image{index:04d}_norm.h5", "w") as file:
            file["image"] = np.random.default_rng(index).random((8, 8, 8))
            file["label"] = np.pad(np.ones((2, 2, 2), dtype=np.uint8), 3)
    rows = [row for row in found(tmp_path) if row[1]]
    assert len(rows) == 4
    assert "1 mm is assumed" in rows[0][2]


def test_without_a_place_in_space_nobody_knows_left_from_right(tmp_path: Path) -> None:
    for index in range(3):
        with h5py.File(tmp_path / f"image{index:04d}_norm.h5", "w") as file:
            file["image"] = np.random.default_rng(index).random((8, 8, 8))
            file["label"] = np.ones((8, 8, 8), dtype=np.uint8) * (np.arange(8) == 7)
    problems = [row[2] for row in found(tmp_path) if "edge" in row[2]]
    assert len(problems) == 3
    assert "start of axis 0, end of axis 0, start of axis 1" in problems[0]
    assert problems[0].endswith("end of axis 1, end of axis 2")


def test_the_store_is_as_large_as_said(data: Path, tmp_path: Path) -> None:
    project = init_project(data, tmp_path / "project")
    wanted = checked(project.root).needs
    voxels = int(np.prod(SHAPE))  # all have the median spacing, so none is resampled
    assert wanted.disk_bytes == 7 * voxels * 4 + 4 * voxels
    assert wanted.prepare_seconds is not None
    assert wanted.prepare_seconds > 0
    assert wanted.memory_bytes is not None
    assert wanted.memory_bytes > 2 * voxels * 4
    assert wanted.measured_on.startswith("case")
    assert checked(data).needs.prepare_seconds is None


def test_a_store_that_does_not_fit_is_an_error(data: Path) -> None:
    wanted = checked(data).needs
    assert disk_rows(wanted, data) == []
    (row,) = disk_rows(replace(wanted, free_bytes=wanted.disk_bytes - 1), data)
    assert row.severity == "error"


def test_a_case_that_cannot_be_prepared_does_not_end_the_check(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = init_project(data, tmp_path / "project")

    def refuse(*_: object, **__: object) -> None:
        raise UserError("no")

    monkeypatch.setattr(needs, "prepare_scans", refuse)
    assert checked(project.root).needs.prepare_seconds is None


def test_a_case_whose_process_died_is_an_error(data: Path) -> None:
    task = survey.SurveyTask(gather(data).cases[0])
    lost = survey.lost_survey(task, "was killed by SIGKILL")
    (row,) = check_case(lost, "labelled", None).rows
    assert (row.severity, row.case) == ("error", "case000")
    assert "SIGKILL" in row.problem


def test_nothing_to_judge_is_judged_without_complaint() -> None:
    assert set_rows([], None) == []


def test_the_callback_counts_every_case(data: Path) -> None:
    seen: list[str] = []
    check(gather(data), seen.append, workers=1)
    assert sorted(seen) == [f"case{index:03d}" for index in range(7)]


def test_a_project_knows_itself(data: Path, tmp_path: Path) -> None:
    project = init_project(data, tmp_path / "project", validation=1)
    material = gather(Project(project.root).root)
    assert sorted(material.parts.values()).count("validation") == 1
