"""HDF5 files as the field passes them on, and their lists."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tracoco.errors import UserError
from tracoco.project.layouts import Found, find_cases

Touch = Callable[..., None]
Short = Callable[[Found], list[tuple[object, ...]]]


def test_left_atrium_with_its_list(tmp_path: Path, write_h5: Touch, short: Short) -> None:
    write_h5("half/B/mri_norm2.h5", "half/A/mri_norm2.h5")
    write_h5("half/U/mri_norm2.h5", labelled=False)
    (tmp_path / "train.list").write_text("U\nB\nA\nelsewhere\n")
    found = find_cases(tmp_path / "half")
    assert found.layout == "community-h5"
    assert short(found) == [
        ("A", "mri_norm2.h5", "mri_norm2.h5", None),
        ("B", "mri_norm2.h5", "mri_norm2.h5", None),
        ("U", "mri_norm2.h5", None, None),
    ]
    assert found.splits is not None
    assert found.splits.labelled == ("B", "A")
    assert found.splits.unlabelled == ("U",)
    assert found.notes[1] == "the lists name 1 cases that are not here"


def test_volumes_are_taken_before_slices_and_patients_are_groups(
    tmp_path: Path, write_h5: Touch
) -> None:
    names = ("patient002_frame01", "patient001_frame02", "patient001_frame01")
    write_h5(*(f"data/{name}.h5" for name in names), "data/slices/patient001_frame01_slice_1.h5")
    (tmp_path / "train_slices.list").write_text(
        "patient001_frame02_slice_3\npatient001_frame01_slice_1\npatient001_frame02_slice_1\n"
    )
    (tmp_path / "val.list").write_text("patient002_frame01\n")
    found = find_cases(tmp_path)
    assert [(case.id, case.group) for case in found.cases] == [
        ("patient001_frame01", "patient001"),
        ("patient001_frame02", "patient001"),
        ("patient002_frame01", "patient002"),
    ]
    assert found.splits is not None
    assert found.splits.labelled == ("patient001_frame02", "patient001_frame01")
    assert found.splits.validation == ("patient002_frame01",)


def test_slices_alone_are_cases(tmp_path: Path, write_h5: Touch) -> None:
    write_h5("data/slices/patient001_frame01_slice_1.h5")
    (case,) = find_cases(tmp_path).cases
    assert (case.id, case.group) == ("patient001_frame01_slice_1", "patient001")


def test_pancreas_and_three_lists_of_paths(tmp_path: Path, write_h5: Touch) -> None:
    write_h5(*(f"image000{i}_norm.h5" for i in range(1, 5)))
    (tmp_path / "train.txt").write_text("data/image0003_norm.h5\n\nimage0001.h5\n")
    (tmp_path / "test.txt").write_text("image0002\r\n")
    found = find_cases(tmp_path)
    assert found.splits is not None
    assert found.splits.labelled == ("image0003", "image0001")
    assert found.splits.test == ("image0002",)
    # What no list has may be anybody's test case.
    assert [case.id for case in found.cases] == ["image0001", "image0002", "image0003"]
    assert found.notes[-1] == "1 cases are in no list and left out"


def test_without_a_list_the_parts_are_left_to_be_drawn(tmp_path: Path, write_h5: Touch) -> None:
    write_h5("in/data/a.h5")
    (tmp_path / "train.txt").write_text("of something else\n")
    found = find_cases(tmp_path / "in")
    assert found.splits is None
    assert found.notes == ("there is no list of cases beside the data",)


def test_lists_without_a_training_case_are_refused(tmp_path: Path, write_h5: Touch) -> None:
    write_h5("data/a.h5")
    (tmp_path / "test.list").write_text("a\n")
    with pytest.raises(UserError, match="name no training case"):
        find_cases(tmp_path)


def test_a_broken_file_is_named(tmp_path: Path, write_h5: Touch, touch: Touch) -> None:
    write_h5("data/a.h5")
    touch("data/b.h5")
    with pytest.raises(UserError, match=r"b\.h5"):
        find_cases(tmp_path)
