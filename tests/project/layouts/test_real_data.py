"""Data sets as people have them: one call each, with the right cases in the right order."""

from pathlib import Path

import pytest
from shared_data import shared_data

from tracoco.project.create import SplitChoice, init_project, propose
from tracoco.project.layouts import find_cases
from tracoco.studies.paper.case_lists import case_list


@pytest.mark.parametrize(
    ("place", "layout", "counts", "first"),
    [
        ("hippocampus", "images-labels", (210, 0, 4, 6), "hippocampus_001"),
        ("btcv_pancreas", "images-labels", (10, 0, 4, 6), "pancreas_00"),
        ("la/half", "community-h5", (70, 0, 4, 6), "06SR5RBREL16DQ6M8LWS"),
    ],
)
def test_parts_are_drawn(place: str, layout: str, counts: tuple[int, ...], first: str) -> None:
    found = find_cases(shared_data(*place.split("/")))
    splits = propose(found, SplitChoice(validation=4, test=6)).splits
    assert found.layout == layout
    assert tuple(len(ids) for ids in splits.parts.values()) == counts
    assert sorted(splits.labelled)[0] >= first


@pytest.mark.parametrize(
    ("place", "dataset", "counts"),
    [
        ("la/half", "la", (80, 0, 0, 0)),
        ("acdc/half", "acdc", (140, 0, 20, 0)),
        ("brats19/half", "brats19", (50, 0, 10, 0)),
    ],
)
def test_lists_beside_the_data_decide(place: str, dataset: str, counts: tuple[int, ...]) -> None:
    splits = propose(find_cases(shared_data(*place.split("/"))), SplitChoice()).splits
    assert tuple(len(ids) for ids in splits.parts.values()) == counts
    assert list(splits.labelled) == case_list(dataset, "train")[: counts[0]]
    assert list(splits.validation) == case_list(dataset, "validation")[: counts[2]]


def test_two_frames_of_a_patient_are_drawn_together() -> None:
    found = find_cases(shared_data("acdc", "half"))
    splits = propose(found, SplitChoice(test=3)).splits
    assert len(splits.test) == 4
    assert len({id_[:10] for id_ in splits.test}) == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "place", ["hippocampus", "btcv_pancreas", "la/half", "acdc/half", "brats19/half"]
)
def test_each_becomes_a_project_by_one_call(place: str, tmp_path: Path) -> None:
    project = init_project(shared_data(*place.split("/")), tmp_path / "project")
    assert project.load_splits().labelled
    assert project.load_plan().label_values[0] == 0
