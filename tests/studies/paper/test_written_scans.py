from pathlib import Path

import numpy as np
import pytest
from samples import write_scan

from tracoco.errors import UserError
from tracoco.project.cases import Case
from tracoco.project.splits import Splits
from tracoco.scans.reader import read_image, read_label
from tracoco.studies.paper.data_sets import LabelCrop
from tracoco.studies.paper.downloads import CROPPED, PaperData, write_scans

SHAPE = (12, 10, 4)


def make_recipe(root: Path, *, whole: bool = False, crop: LabelCrop | None = None) -> PaperData:
    """One labelled scan with the values 0, 1, 2 and 4, and one without a label."""
    random = np.random.default_rng(0)
    write_scan(root / "a.nii.gz", random.integers(-1000, 1000, SHAPE).astype(np.int16), (1, 2, 3))
    write_scan(root / "b.nii.gz", random.random(SHAPE).astype(np.float32), (1, 2, 3))
    label = np.zeros(SHAPE, np.uint8)
    label[4, 5, 1], label[5, 5, 1], label[6, 5, 2] = 1, 2, 4
    write_scan(root / "a_seg.nii.gz", label, (1, 2, 3))
    cases = (
        Case("a", (root / "a.nii.gz",), root / "a_seg.nii.gz"),
        Case("b", (root / "b.nii.gz",), None),
    )
    splits = Splits(("a",), ("b",), (), ())
    return PaperData(cases, splits, {1: "x"}, {}, (), "part", whole=whole, label_crop=crop)


def test_the_box_is_widened_then_given_a_margin_and_ends_at_the_scan() -> None:
    label = np.zeros((40, 30, 8), np.uint8)
    label[20:24, 2:5, 3] = 1
    crop = LabelCrop(least_mm=10, margin_mm=4)
    # x, 1 mm: 20 to 24 has 4 voxels, 10 with 3 on each side, then 4 on each side.
    # y, 2 mm: 2 to 5 has 3, 5 with one on each side, then 2; there is no voxel below 0.
    box = crop.box(label, (1, 2, 5))
    assert (box.start, box.stop) == ((13, 0, 0), (31, 8, 8))
    assert crop.box(np.zeros((3, 4, 5)), (1, 1, 1)).size == (3, 4, 5)


def test_a_box_that_is_large_enough_only_gets_the_margin() -> None:
    label = np.zeros((40, 40, 2), np.uint8)
    label[10:30, 10:31, 0] = 1
    box = LabelCrop(least_mm=20, margin_mm=1).box(label, (1, 1, 1))
    assert (box.start, box.stop) == ((9, 9, 0), (31, 32, 2))


def test_nothing_is_written_where_nothing_changes(tmp_path: Path) -> None:
    recipe = make_recipe(tmp_path / "data")
    assert write_scans(recipe, tmp_path / "scans") is recipe
    assert not (tmp_path / "scans").exists()


def test_all_structures_become_one_and_images_stay_where_they_are(tmp_path: Path) -> None:
    recipe = make_recipe(tmp_path / "data", whole=True)
    seen: list[str] = []
    written = write_scans(recipe, tmp_path / "scans", on_case=seen.append)
    first, second = written.cases
    assert (first.images, second) == (recipe.cases[0].images, recipe.cases[1])
    assert first.label == tmp_path / "scans" / "labels" / "a.nii.gz"
    before, after = read_label(tmp_path / "data" / "a_seg.nii.gz"), read_label(first.label)
    assert np.array_equal(after.array, before.array > 0)
    assert np.array_equal(after.affine, before.affine)
    assert written.watermark == "part"
    assert seen == ["a", "b"]


def test_a_cropped_scan_keeps_its_place_and_its_values(tmp_path: Path) -> None:
    recipe = make_recipe(tmp_path / "data", crop=LabelCrop(least_mm=4, margin_mm=2))
    written = write_scans(recipe, tmp_path / "scans", crop_by_label=True)
    case = written.cases[0]
    assert case.label is not None
    image, label = read_image(case.images[0]), read_label(case.label)
    whole = read_image(tmp_path / "data" / "a.nii.gz")
    # x: 4 to 7 is 3 voxels of 1 mm, one more at the end, two around: 2 to 10.
    # y: one voxel of 2 mm, one more at the end, one around: 4 to 8.
    assert np.array_equal(image.array, whole.array[:, 2:10, 4:8])
    assert label.array.shape == (8, 4, 4)
    assert np.array_equal(np.argwhere(label.array), [[2, 1, 1], [3, 1, 1], [4, 1, 2]])
    assert set(np.unique(label.array)) == {0, 1, 2, 4}
    assert np.allclose(image.affine[:3, 3], whole.affine[:3, 3] + [2, 8, 0])
    assert np.allclose(image.affine, label.affine)
    assert written.watermark == f"part; {CROPPED}"
    assert written.cases[1] == recipe.cases[1]


def test_only_scans_that_the_field_crops_are_cropped_by_their_label(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--crop-by-label"):
        write_scans(make_recipe(tmp_path), tmp_path / "scans", crop_by_label=True)


def test_a_label_that_lies_elsewhere_is_refused(tmp_path: Path) -> None:
    recipe = make_recipe(tmp_path / "data", whole=True)
    write_scan(tmp_path / "data" / "a_seg.nii.gz", np.zeros(SHAPE, np.uint8), (1, 1, 3))
    with pytest.raises(UserError, match="voxels away from its image"):
        write_scans(recipe, tmp_path / "scans")
