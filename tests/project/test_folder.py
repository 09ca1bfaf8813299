import errno
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest

from tracoco.errors import UserError
from tracoco.project import create
from tracoco.project.create import SplitChoice, create_project, init_project, propose
from tracoco.project.folder import Origin, Project
from tracoco.project.layouts import find_cases
from tracoco.project.prepare import prepare


def test_a_project_holds_all_that_was_found(data: Path, tmp_path: Path) -> None:
    project = init_project(data, tmp_path / "new" / "project", validation=1, test=1, seed=3)
    assert {file.name for file in project.root.iterdir()} == {
        "cases.json",
        "splits.json",
        "plan.yaml",
        "fingerprint.json",
        "origin.json",
    }
    assert [case.id for case in project.load_cases()] == ["a", "b", "c", "u", "v"]
    splits = project.load_splits()
    assert (len(splits.labelled), len(splits.validation), len(splits.test)) == (1, 1, 1)
    assert splits.unlabelled == ("u", "v")
    assert project.load_plan().label_values == (0, 7)
    assert project.load_origin().layout == "images-labels"
    assert project.store_root == project.root / "store"
    assert project.runs_root == project.root / "runs"


def test_labels_from_elsewhere_and_2d(data: Path, tmp_path: Path) -> None:
    (data / "labels").rename(tmp_path / "masks")
    (tmp_path / "masks" / "c.nii.gz").unlink()
    project = init_project(data, tmp_path / "p", labels=tmp_path / "masks", dimensions=2)
    assert project.load_splits().labelled == ("a", "b")
    assert project.load_plan().dimensions == 2


def test_the_seed_decides_the_split(data: Path, tmp_path: Path) -> None:
    tests = {
        init_project(data, tmp_path / f"p{seed}", test=1, seed=seed).load_splits().test
        for seed in range(8)
    }
    assert len(tests) > 1


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_what_exists_is_left_as_it_is(data: Path, tmp_path: Path, kind: str) -> None:
    out = tmp_path / "project"
    file = out / "notes.txt" if kind == "folder" else out
    file.parent.mkdir(exist_ok=True)
    file.write_text("mine")
    with pytest.raises(UserError, match=r"project exists already .*choose another folder"):
        init_project(data, out)
    assert file.read_text() == "mine"
    assert kind == "file" or list(out.iterdir()) == [file]


def test_an_empty_folder_may_become_a_project(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    assert len(init_project(data, Path()).load_cases()) == 5


@pytest.mark.parametrize("broken", ["image", "split"])
def test_nothing_is_written_if_anything_is_wrong(data: Path, tmp_path: Path, broken: str) -> None:
    if broken == "image":
        (data / "images" / "u.nii.gz").write_bytes(b"")
    with pytest.raises(UserError):
        init_project(data, tmp_path / "project", test=3 if broken == "split" else 0)
    assert not (tmp_path / "project").exists()


@pytest.mark.parametrize("existed", [False, True])
def test_a_full_disk_leaves_nothing_behind(
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    existed: bool,  # noqa: FBT001  # a case
) -> None:
    def full(path: Path, _: object) -> NoReturn:
        raise UserError(f"{path}: no space left") from OSError(errno.ENOSPC, "full")

    out = tmp_path / "project"
    if existed:
        out.mkdir()
    monkeypatch.setattr(create, "write_cases", full)
    with pytest.raises(UserError, match="no space left"):
        init_project(data, out)
    assert out.exists() == existed
    assert not existed or list(out.iterdir()) == []


def test_names_of_classes_come_from_the_data(data: Path, tmp_path: Path) -> None:
    (data / "images").rename(data / "imagesTr")
    (data / "labels").rename(data / "labelsTr")
    (data / "dataset.json").write_text('{"labels": {"background": 0, "atrium": 7, "wall": 9}}')
    plan = init_project(data, tmp_path / "project").load_plan()
    assert (plan.label_values, plan.class_names) == ((0, 7), ("background", "atrium"))


def test_values_that_are_known_take_the_place_of_planned_ones(data: Path, tmp_path: Path) -> None:
    found = replace(find_cases(data), plan={"spacing_mm": (2, 2, 2)}, watermark="half of it")
    project = create_project(tmp_path / "project", propose(found, SplitChoice()))
    assert project.load_plan().spacing_mm == (2, 2, 2)
    assert project.load_origin().watermark == "half of it"


def test_an_older_project_knows_nothing_of_its_origin(data: Path, tmp_path: Path) -> None:
    project = init_project(data, tmp_path / "project")
    project.origin_file.unlink()
    assert project.load_origin() == Origin()


def test_labels_of_unlabelled_and_hidden_cases_are_not_opened(data: Path, tmp_path: Path) -> None:
    for id_ in "bc":
        (data / "labels" / f"{id_}.nii.gz").write_bytes(b"no label map")
    proposal = propose(find_cases(data), SplitChoice(hide_labels=1))
    project = create_project(tmp_path / "project", proposal)
    splits = project.load_splits()
    assert (splits.labelled, splits.hidden) == (("a",), ("b", "c"))
    assert splits.unlabelled == ("u", "v", "b", "c")
    assert "2 labels are hidden" in project.load_origin().notes[-1]
    assert prepare(project) == 5


def test_another_folder_is_not_a_project(tmp_path: Path) -> None:
    for load in (
        Project(tmp_path).load_cases,
        Project(tmp_path).load_splits,
        Project(tmp_path).load_plan,
    ):
        with pytest.raises(UserError, match=r"is not a project folder: .*tracoco init"):
            load()


def test_an_edited_split_is_checked_against_the_cases(data: Path, tmp_path: Path) -> None:
    project = init_project(data, tmp_path / "project")
    project.splits_file.write_text('{"labelled": ["a", "u"]}')
    with pytest.raises(UserError, match=r"splits\.json wants the label of case 'u'"):
        project.load_splits()
