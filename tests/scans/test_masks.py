"""Folders with one mask per structure."""

from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from numpy.typing import NDArray

from tracoco.errors import UserError
from tracoco.project.create import init_project
from tracoco.project.layouts import find_cases
from tracoco.scans.reader import is_scan, read_label, read_structures

AFFINE = np.diag([-2.0, 1.0, 3.0, 1.0])


def write(path: Path, array: NDArray[np.generic], affine: NDArray[np.float64] = AFFINE) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    nib.save(nib.Nifti1Image(array, affine), path)


def masks(folder: Path, **places: tuple[int, ...]) -> Path:
    for name, place in places.items():
        array = np.zeros((4, 5, 3), np.uint8)
        array[place] = 1
        write(folder / "segmentations" / f"{name}.nii.gz", array)
    return folder / "segmentations"


def test_masks_are_one_label_that_names_its_structures(tmp_path: Path) -> None:
    folder = masks(tmp_path, liver=(0, 1, 2), spleen=(3, 1, 2))
    (folder / ".hidden.nii.gz").touch()
    assert is_scan(folder)
    label = read_label(folder)
    assert [(s.value, s.name) for s in label.structures] == [(1, "liver"), (2, "spleen")]
    assert read_structures(folder) == label.structures
    # The first axis points to the left in the files, and to the right in memory.
    assert np.argwhere(label.array == 1).tolist() == [[3, 1, 2]]
    assert np.argwhere(label.array == 2).tolist() == [[0, 1, 2]]


def test_masks_that_overlap_or_lie_on_other_grids_are_refused(tmp_path: Path) -> None:
    folder = masks(tmp_path / "a", liver=(0, 1, 2), tumour=(0, 1, 2))
    with pytest.raises(UserError, match=r"'liver' and 'tumour' overlap in 1 voxels"):
        read_label(folder)
    folder = masks(tmp_path / "b", liver=(0, 1, 2))
    write(folder / "spleen.nii.gz", np.zeros((4, 5, 3), np.uint8), np.diag([-2.0, 1.0, 4.0, 1.0]))
    with pytest.raises(UserError, match=r"spleen\.nii\.gz"):
        read_label(folder)


def test_another_folder_of_files_is_no_label(tmp_path: Path) -> None:
    assert not is_scan(masks(tmp_path, liver=(0, 0, 0)).rename(tmp_path / "other"))
    (tmp_path / "segmentations").mkdir()
    assert not is_scan(tmp_path / "segmentations")


def test_a_project_takes_structures_by_name_though_cases_have_others(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for case, places in {
        "s1": {"liver": (0, 1, 2), "spleen": (3, 1, 2)},
        "s2": {"kidney": (1, 1, 1), "spleen": (2, 1, 0)},
    }.items():
        write(tmp_path / "data" / case / "ct.nii.gz", rng.normal(size=(4, 5, 3)).astype("f4"))
        masks(tmp_path / "data" / case, **places)
    write(tmp_path / "data" / "s3" / "ct.nii.gz", rng.normal(size=(4, 5, 3)).astype("f4"))
    found = find_cases(tmp_path / "data")
    assert [case.label is not None for case in found.cases] == [True, True, False]
    project = init_project(tmp_path / "data", tmp_path / "project")
    names = dict(
        zip(project.load_plan().label_values, project.load_plan().class_names, strict=True)
    )
    assert set(names.values()) == {"background", "liver", "spleen", "kidney"}
