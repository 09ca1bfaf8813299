from dataclasses import replace
from pathlib import Path

import pytest

from tracoco.errors import UserError
from tracoco.project.cases import Case
from tracoco.studies.paper.case_lists import (
    DATASETS,
    PARTS,
    case_list,
    labelled_cases,
    listed_name,
    listed_splits,
    ordered,
    recognise,
)


@pytest.mark.parametrize(
    ("dataset", "train", "validation", "test"),
    [("la", 80, 0, 20), ("pancreas", 62, 0, 20), ("brats19", 250, 25, 60), ("acdc", 140, 20, 40)],
)
def test_the_lists_are_complete_and_name_each_case_once(
    dataset: str, train: int, validation: int, test: int
) -> None:
    assert len(case_list(dataset, "train")) == train
    assert len(case_list(dataset, "validation")) == validation
    assert len(case_list(dataset, "test")) == test
    names = [
        *case_list(dataset, "train"),
        *case_list(dataset, "validation"),
        *case_list(dataset, "test"),
    ]
    assert len(set(names)) == train + validation + test


def test_the_first_cases_are_those_that_the_field_labels() -> None:
    assert case_list("la", "train")[0] == "06SR5RBREL16DQ6M8LWS"
    assert case_list("pancreas", "train")[:2] == ["image0057", "image0018"]
    assert case_list("brats19", "train")[-1] == "BraTS19_TCIA10_346_1"
    assert case_list("acdc", "train")[:2] == ["patient099_frame01", "patient099_frame02"]


def test_the_two_frames_of_a_patient_stand_together_in_one_list() -> None:
    for part in ("train", "validation", "test"):
        names = case_list("acdc", part)
        patients = [name.partition("_")[0] for name in names]
        assert patients[::2] == patients[1::2]
        assert len(set(patients)) == len(names) / 2


def test_changing_an_answer_changes_no_list() -> None:
    case_list("la", "train").clear()
    assert len(case_list("la", "train")) == 80


@pytest.mark.parametrize("dataset", DATASETS)
def test_a_project_of_listed_cases_is_recognised_also_a_part_of_them(dataset: str) -> None:
    train, test = case_list(dataset, "train"), case_list(dataset, "test")
    validation = case_list(dataset, "validation")
    assert recognise([*train, *validation], test) == dataset
    assert recognise(train[5:20], test[:3]) == dataset
    assert recognise(train, []) == dataset


def test_names_of_the_files_that_are_passed_around_are_recognised() -> None:
    assert recognise(["image0057_norm", "image0018_norm"], ["image0050_norm"]) == "pancreas"
    assert recognise(["06SR5RBREL16DQ6M8LWS_mri_norm2"], []) == "la"
    assert listed_name("image0057") == "image0057"


def test_a_case_of_no_list_or_on_the_wrong_side_is_not_the_papers_data() -> None:
    train, test = case_list("la", "train"), case_list("la", "test")
    assert recognise([*train, "case001"], test) is None
    assert recognise([*train, test[0]], test[1:]) is None
    assert recognise(train[1:], [train[0]]) is None
    assert recognise([*train, *case_list("pancreas", "train")], []) is None
    assert recognise([], test) is None
    assert recognise([], []) is None
    assert recognise(["image00_norm57"], []) is None
    # Slices of ACDC are no scans: counting two a patient would be wrong.
    assert recognise(["patient099_frame01_slice_1"], []) is None


def test_cases_come_in_the_order_of_the_list_under_their_own_names() -> None:
    train = case_list("brats19", "train")
    assert ordered("brats19", sorted(train)) == train
    assert ordered("pancreas", ["image0018_norm", "image0057_norm"]) == [
        "image0057_norm",
        "image0018_norm",
    ]
    learnt = case_list("acdc", "train")[-1]
    validated, tested = case_list("acdc", "validation")[0], case_list("acdc", "test")[0]
    assert ordered("acdc", [tested, validated, learnt]) == [learnt, validated, tested]


def test_a_case_that_is_in_no_list_has_no_order() -> None:
    with pytest.raises(UserError, match=r"'case001' is in no list of 'la'.*06SR5RBREL16DQ6M8LWS"):
        ordered("la", ["06SR5RBREL16DQ6M8LWS", "case001"])


def test_labelled_patients_of_acdc_are_two_cases_each() -> None:
    assert labelled_cases("acdc", 7) == 14
    assert labelled_cases("la", 8) == 8


def test_an_unknown_data_set_names_the_nearest() -> None:
    with pytest.raises(UserError, match=r"'brats'.* did you mean 'brats19'"):
        case_list("brats", "train")


def test_the_lists_split_a_data_set_in_their_own_order() -> None:
    names = [name for part in PARTS for name in case_list("pancreas", part)]
    cases = [Case(f"{name}_norm", (Path("image"),), Path("label")) for name in sorted(names)]
    hidden = replace(cases[0], label=None)
    splits = listed_splits("pancreas", [hidden, *cases[1:]])
    expected = [f"{name}_norm" for name in case_list("pancreas", "train")]
    assert [id_ for id_ in expected if id_ != hidden.id] == list(splits.labelled)
    assert (len(splits.labelled) + len(splits.unlabelled), len(splits.test)) == (62, 20)


def test_a_data_set_that_is_not_the_lists_is_told_case_by_case() -> None:
    names = [name for part in PARTS for name in case_list("la", part)]
    cases = [Case(name, (Path("image"),), Path("label")) for name in names[1:]]
    with pytest.raises(UserError) as caught:
        listed_splits("la", [*cases, Case("stranger", (Path("image"),), None)])
    assert "'stranger' is in no list of la" in str(caught.value)
    assert f"have '{names[0]}', but the data has not" in str(caught.value)
