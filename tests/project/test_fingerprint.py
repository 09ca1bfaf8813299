import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest

from tracoco.errors import UserError
from tracoco.project import labels as label_reading
from tracoco.project.case_statistics import CaseStatistics, Intensities
from tracoco.project.fingerprint import (
    Fingerprint,
    Foreground,
    LabelValue,
    read_fingerprint,
    take_fingerprint,
    write_fingerprint,
)
from tracoco.project.layouts import find_cases
from tracoco.project.splits import Splits
from tracoco.scans import reader

SPLITS = Splits(labelled=("a", "b"), unlabelled=("u", "v"), validation=(), test=("c",))
Save = Callable[..., Path]


def fingerprint(data: Path, splits: Splits = SPLITS) -> Fingerprint:
    return take_fingerprint(find_cases(data).cases, splits)


def test_headers_and_label_values_are_counted(data: Path, save: Save) -> None:
    for id_, sevens in (("a", 2), ("b", 0), ("c", 3)):
        label = np.zeros((4, 5, 6), dtype=np.uint8)
        label.ravel()[:sevens] = 7
        save(data / "labels" / f"{id_}.nii.gz", label)
    found = fingerprint(data)
    first = found.cases[0]
    assert (first.id, first.shape, first.spacing_mm, first.channels) == (
        "a",
        (4, 5, 6),
        (1, 1, 1),
        1,
    )
    assert first.has_geometry
    assert [case.id for case in found.cases] == ["a", "b", "c", "u", "v"]
    # 3 x 120 voxels, of which 5 are 7 in two of the cases.
    assert found.labels == (LabelValue(0, 355, 3), LabelValue(7, 5, 2))


def test_the_label_of_an_unlabelled_case_is_never_opened(data: Path) -> None:
    (data / "labels" / "b.nii.gz").write_bytes(b"would raise if it were read")
    hidden = Splits(labelled=("a",), unlabelled=("b", "u", "v"), validation=(), test=("c",))
    assert len(fingerprint(data, hidden).cases) == 5
    with pytest.raises(UserError, match=r"b\.nii\.gz"):
        fingerprint(data)


def test_the_label_reader_is_not_called_for_unlabelled_cases(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    def read_label(path: Path) -> Any:
        opened.append(path.name)
        return reader.read_label(path)

    monkeypatch.setattr(label_reading, "read_label", read_label)
    fingerprint(data, Splits(("a",), ("b", "u", "v"), ("c",), ()))
    assert opened == ["a.nii.gz", "c.nii.gz"]


def test_intensities_of_every_image_are_measured(data: Path, save: Save) -> None:
    # 0, 1, ..., 119: the percentiles of 120 equally spaced numbers are shares of 119.
    save(data / "images" / "u.nii.gz", np.arange(120, dtype=np.float32).reshape(4, 5, 6))
    save(
        data / "images" / "v.nii.gz", np.linspace(-0.5, 0.5, 120, dtype=np.float32).reshape(4, 5, 6)
    )
    found = {case.id: case.intensities for case in fingerprint(data).cases}
    (values,) = found["u"]
    assert (values.lowest, values.highest, values.mean) == (0, 119, 59.5)
    assert values.percentiles == pytest.approx((0.595, 5.95, 59.5, 113.05, 118.405))
    assert values.integers
    assert not found["v"][0].integers
    assert len(found["a"]) == 1


def test_only_cases_that_teach_with_a_label_say_what_the_foreground_is_like(
    data: Path, save: Save
) -> None:
    label = np.zeros((4, 5, 6), dtype=np.uint8)
    label[0] = 7
    for id_, value in (("a", 10.0), ("b", 30.0), ("c", 9999.0)):
        image = np.zeros((4, 5, 6), dtype=np.float32)
        image[0] = value
        save(data / "images" / f"{id_}.nii.gz", image)
        save(data / "labels" / f"{id_}.nii.gz", label)
    # 30 voxels of 10 and 30 of 30; c is a test case.
    assert fingerprint(data).foreground == (Foreground(10, 30, 20, 10),)


def test_processes_see_what_one_process_sees(data: Path) -> None:
    done: list[str] = []
    cases = find_cases(data).cases
    found = take_fingerprint(cases, SPLITS, workers=2, on_case=done.append)
    assert found == fingerprint(data)
    assert sorted(done) == ["a", "b", "c", "u", "v"]
    (data / "images" / "u.nii.gz").write_bytes(b"")
    (data / "labels" / "b.nii.gz").write_bytes(b"")
    with pytest.raises(UserError, match=r"2 problems:\n.*b\.nii\.gz.*\n.*u\.nii\.gz"):
        take_fingerprint(cases, SPLITS, workers=2)


def test_a_scan_that_is_cut_short_is_found_at_once(data: Path, save: Save) -> None:
    path = data / "images" / "u.nii"
    (data / "images" / "u.nii.gz").unlink()
    save(path, np.zeros((4, 5, 6)))
    path.write_bytes(path.read_bytes()[:352])
    with pytest.raises(UserError, match=r"u\.nii is cut short"):
        fingerprint(data)


def test_all_problems_are_named_at_once(data: Path, save: Save) -> None:
    save(data / "labels" / "a.nii.gz", np.zeros((4, 5, 7), dtype=np.uint8))
    save(data / "labels" / "b.nii.gz", np.zeros((4, 5, 6), dtype=np.uint8), (1, 1, 1.5))
    save(data / "labels" / "c.nii.gz", np.full((4, 5, 6), 0.5))
    save(data / "images" / "u.nii.gz", np.zeros((4, 5, 6, 2)))
    (data / "images" / "v.nii.gz").write_bytes(b"")
    with pytest.raises(UserError) as error:
        fingerprint(data)
    text = str(error.value)
    assert text.startswith("5 problems:")
    assert "a.nii.gz has the shape (4, 5, 7), its image" in text
    # The last slice lies at 5 x 1.5 mm instead of 5 x 1 mm, in voxels of 1 mm.
    assert "b.nii.gz lies up to 2.5 voxels away from its image" in text
    assert "between integers (0.5)" in text
    assert "case 'u' has 2 channels, most have 1" in text
    assert "v.nii.gz is not a NIfTI file" in text


def test_a_label_of_another_axis_order_lies_on_its_image(data: Path, save: Save) -> None:
    image = np.arange(120, dtype=np.float32).reshape(4, 5, 6)
    save(data / "images" / "a.nii.gz", image, (1, 1, 1))
    path = save(data / "labels" / "a.nii.gz", (image > 60).astype(np.uint8))
    label: Any = nibabel.load(path)
    turned = label.as_reoriented(np.array([[2, 1], [0, -1], [1, 1]]))
    nibabel.save(turned, path)
    assert len(fingerprint(data).cases) == 5


def test_rounding_of_a_header_is_no_problem(data: Path, save: Save) -> None:
    # The far corner moves by 5 x 0.01 mm, a twentieth of a voxel.
    save(data / "labels" / "a.nii.gz", np.ones((4, 5, 6), dtype=np.uint8), (1, 1, 1.01))
    assert fingerprint(data).labels


@pytest.mark.parametrize("lowest", [-1, 0])
def test_an_image_is_not_taken_for_a_label(data: Path, save: Save, lowest: int) -> None:
    values = np.arange(lowest, lowest + 300, dtype=np.int16).reshape(1, 10, 30)
    save(data / "images" / "a.nii.gz", values)
    save(data / "labels" / "a.nii.gz", values)
    with pytest.raises(UserError, match=f"300 values from {lowest} to {lowest + 299}"):
        fingerprint(data)


def test_negative_values_are_refused(data: Path, save: Save) -> None:
    save(data / "labels" / "a.nii.gz", np.full((4, 5, 6), -1, dtype=np.int16))
    with pytest.raises(UserError, match="1 values from -1 to -1"):
        fingerprint(data)


def test_labels_without_a_structure_are_refused(data: Path, save: Save) -> None:
    for id_ in "abc":
        save(data / "labels" / f"{id_}.nii.gz", np.zeros((4, 5, 6), dtype=np.uint8))
    with pytest.raises(UserError, match="nothing but background"):
        fingerprint(data)


def test_too_many_values_together_are_refused(data: Path, save: Save) -> None:
    for id_, first in (("a", 0), ("b", 120), ("c", 240)):
        values = np.arange(first, first + 120, dtype=np.int16).reshape(4, 5, 6)
        save(data / "labels" / f"{id_}.nii.gz", values)
    with pytest.raises(UserError, match="hold 360 values together; at most 254"):
        fingerprint(data)


MEASURED = Intensities(lowest=0, highest=9, mean=4, percentiles=(0, 1, 4, 8, 9), integers=True)
FACTS = Fingerprint(
    cases=(
        CaseStatistics(
            "a",
            (1, 2, 3),
            (1, 1, 2.5),
            1,
            has_geometry=False,
            intensities=(MEASURED,),
            content_shape=(1, 2, 2),
        ),
    ),
    labels=(LabelValue(0, 6, 1),),
    foreground=(Foreground(1, 8, 4, 2),),
)


def test_the_fingerprint_is_written_for_a_reader(tmp_path: Path) -> None:
    path = tmp_path / "fingerprint.json"
    write_fingerprint(path, FACTS)
    (case,) = json.loads(path.read_text())["cases"]
    assert case["spacing_mm"] == [1, 1, 2.5]
    assert case["has_geometry"] is False
    assert case["intensities"][0]["percentiles"] == [0, 1, 4, 8, 9]
    assert case["content_shape"] == [1, 2, 2]
    assert read_fingerprint(path) == FACTS


def test_a_fingerprint_that_says_placed_is_read_too(tmp_path: Path) -> None:
    path = tmp_path / "fingerprint.json"
    write_fingerprint(path, FACTS)
    content = json.loads(path.read_text())
    content["cases"][0]["placed"] = content["cases"][0].pop("has_geometry")
    path.write_text(json.dumps(content))
    assert read_fingerprint(path) == FACTS
    assert FACTS.cases[0].has_geometry is False


def test_the_margin_in_which_nothing_changes_is_measured(data: Path, save: Save) -> None:
    image = np.full((4, 5, 6), -3, dtype=np.float32)
    image[1:, 1:3, 5] = 7
    save(data / "images" / "b.nii.gz", image)
    shapes = {case.id: (case.shape, case.content_shape) for case in fingerprint(data).cases}
    assert shapes["b"] == ((4, 5, 6), (3, 2, 1))
    assert shapes["a"] == ((4, 5, 6), (4, 5, 6))


def test_a_fingerprint_without_intensities_is_read_too(tmp_path: Path) -> None:
    case = {"id": "a", "shape": [1, 2, 3], "spacing_mm": [1, 1, 2.5], "channels": 1}
    labels = [{"value": 0, "voxels": 6, "cases": 1}]
    (tmp_path / "old.json").write_text(json.dumps({"cases": [case], "labels": labels}))
    old = read_fingerprint(tmp_path / "old.json")
    assert old.cases == (CaseStatistics("a", (1, 2, 3), (1, 1, 2.5), 1),)
    assert old.foreground == ()
    case["shape"] = [1, 2]
    (tmp_path / "old.json").write_text(json.dumps({"cases": [case], "labels": labels}))
    with pytest.raises(UserError, match=r"old\.json: cases\.0\.shape"):
        read_fingerprint(tmp_path / "old.json")
