"""Folders of nnU-Net and the Decathlon."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tracoco.errors import UserError
from tracoco.project.layouts import Found, find_cases

Touch = Callable[..., None]
Short = Callable[[Found], list[tuple[object, ...]]]


def describe(root: Path, **values: object) -> None:
    (root / "dataset.json").write_text(json.dumps(values))


def test_channels_names_and_unlabelled_scans(tmp_path: Path, touch: Touch, short: Short) -> None:
    touch(*(f"imagesTr/{case}_000{i}.nii.gz" for case in "ab" for i in range(2)))
    touch("labelsTr/a.nii.gz", "labelsTr/b.nii.gz")
    touch("imagesTs/x_0000.nii.gz", "imagesTs/x_0001.nii.gz")
    labels = {"background": 0, "liver": 1, "tumour": 2}
    describe(tmp_path, labels=labels, channel_names={"0": "T2", "1": "ADC"})
    found = find_cases(tmp_path)
    assert short(found) == [
        ("a", "a_0000.nii.gz+a_0001.nii.gz", "a.nii.gz", None),
        ("b", "b_0000.nii.gz+b_0001.nii.gz", "b.nii.gz", None),
        ("x", "x_0000.nii.gz+x_0001.nii.gz", None, None),
    ]
    assert found.class_names == {0: "background", 1: "liver", 2: "tumour"}
    assert found.splits is None
    assert found.notes == ("channels: T2, ADC", "1 scans of imagesTs have no label: unlabelled")


def test_test_labels_make_test_cases(tmp_path: Path, touch: Touch) -> None:
    touch("imagesTr/a.nii.gz", "imagesTr/u.nii.gz", "labelsTr/a.nii.gz")
    touch("imagesTs/t.nii.gz", "imagesTs/w.nii.gz", "labelsTs/t.nii.gz")
    describe(tmp_path, labels={"0": "background", "1": "Anterior"}, modality={"0": "MRI"})
    found = find_cases(tmp_path)
    assert found.class_names == {0: "background", 1: "Anterior"}
    assert found.splits is not None
    assert found.splits.parts == {
        "labelled": ("a",),
        "unlabelled": ("u", "w"),
        "validation": (),
        "test": ("t",),
    }


def test_a_missing_channel_is_named(tmp_path: Path, touch: Touch) -> None:
    touch("imagesTr/a_0000.nii", "imagesTr/a_0001.nii", "imagesTr/b_0001.nii")
    touch("labelsTr/a.nii", "labelsTr/b.nii")
    describe(tmp_path, labels={})
    with pytest.raises(UserError, match="case 'b' has no channel 0000"):
        find_cases(tmp_path)


def test_a_case_in_both_folders_is_refused(tmp_path: Path, touch: Touch) -> None:
    touch("imagesTr/a.nii", "labelsTr/a.nii", "imagesTs/a.nii")
    describe(tmp_path, labels={})
    with pytest.raises(UserError, match="case 'a' is in imagesTr and in imagesTs"):
        find_cases(tmp_path)


def test_regions_and_ignored_voxels_are_told(tmp_path: Path, touch: Touch) -> None:
    touch("imagesTr/a.nii", "labelsTr/a.nii")
    describe(tmp_path, labels={"background": 0, "whole": [1, 2], "ignore": 3})
    found = find_cases(tmp_path)
    first, second = found.notes
    assert "'whole' is a region of several label values" in first
    assert second == "voxels of the value 3 ('ignore') count as unlabelled"
    assert found.ignore == 3
    assert 3 not in found.class_names


def test_a_broken_description_is_named(tmp_path: Path, touch: Touch) -> None:
    touch("imagesTr/a.nii", "labelsTr/a.nii")
    (tmp_path / "dataset.json").write_text("[]")
    with pytest.raises(UserError, match=r"dataset\.json is not an object"):
        find_cases(tmp_path)
