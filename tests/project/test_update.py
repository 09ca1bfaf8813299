"""More scans or labels for a project."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tracoco.errors import UserError
from tracoco.project import create
from tracoco.project.create import SplitChoice, create_project, init_project, propose
from tracoco.project.folder import Project
from tracoco.project.layouts import find_cases
from tracoco.project.prepare import prepare
from tracoco.project.splits import Splits, write_splits
from tracoco.project.update import Update, apply_update, propose_update

SHAPE = (4, 5, 6)


@pytest.fixture
def add(data: Path, save: Callable[..., Path]) -> Callable[..., None]:
    """Write an image, or a label with this value, for a case."""

    def add_scan(id_: str, *, label: int | None = None) -> None:
        voxels: Any = np.random.default_rng([ord(letter) for letter in id_]).normal(100, 20, SHAPE)
        if not (data / "images" / f"{id_}.nii.gz").exists():
            save(data / "images" / f"{id_}.nii.gz", voxels.astype(np.float32))
        if label is not None:
            save(data / "labels" / f"{id_}.nii.gz", (voxels > 100).astype(np.uint8) * label)

    return add_scan


def update(project: Project, data: Path) -> Update:
    proposed = propose_update(project, find_cases(data))
    apply_update(project, proposed)
    return proposed


def test_new_scans_and_labels_go_to_the_training(
    data: Path, tmp_path: Path, add: Callable[..., None]
) -> None:
    project = init_project(data, tmp_path / "project", validation=1, test=1)
    before = project.load_splits()
    add("u", label=7)
    add("n", label=7)
    add("w")
    changes = update(project, data)
    assert (changes.added, changes.newly_labelled, changes.unchanged) == (("n", "w"), ("u",), 4)
    assert [changes.change(id_) for id_ in "nua"] == ["added", "newly labelled", "unchanged"]
    after = project.load_splits()
    assert (after.test, after.validation) == (before.test, before.validation)
    assert after.labelled == (*before.labelled, "u", "n")
    assert after.unlabelled == ("v", "w")
    assert prepare(project) == 7


def test_the_plan_stays_as_it_was_edited(
    data: Path, tmp_path: Path, add: Callable[..., None]
) -> None:
    project = init_project(data, tmp_path / "project")
    edited = project.plan_file.read_text().replace('"label 7"', '"atrium"')
    project.plan_file.write_text(edited)
    add("w")
    update(project, data)
    assert project.plan_file.read_text() == edited


def files_of(project: Project) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in project.root.iterdir()}


def test_removed_files_are_listed_and_nothing_changes(
    data: Path, tmp_path: Path, add: Callable[..., None]
) -> None:
    project = init_project(data, tmp_path / "project")
    before = files_of(project)
    add("w")
    (data / "images" / "u.nii.gz").unlink()
    (data / "labels" / "b.nii.gz").unlink()
    with pytest.raises(UserError) as error:
        update(project, data)
    assert "case 'u' is gone: " in str(error.value)
    assert "case 'b' has lost its label, which was " in str(error.value)
    assert files_of(project) == before


def test_new_label_values_need_a_place_in_the_plan(
    data: Path, tmp_path: Path, add: Callable[..., None]
) -> None:
    project = init_project(data, tmp_path / "project")
    before = files_of(project)
    add("w", label=9)
    with pytest.raises(UserError, match=r"new values 9, .*plan\.yaml does not list; add them"):
        update(project, data)
    assert files_of(project) == before
    text = project.plan_file.read_text().replace("[0, 7]", "[0, 7, 9]")
    project.plan_file.write_text(text.replace('"label 7"]', '"label 7", "wall"]'))
    update(project, data)
    assert project.load_splits().labelled == ("a", "b", "c", "w")


def test_a_failed_write_leaves_the_project_as_it_was(
    data: Path, tmp_path: Path, add: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    project = init_project(data, tmp_path / "project")
    before = files_of(project)
    add("w")

    def fail(*_: object) -> None:
        raise UserError("no space left")

    monkeypatch.setattr(create, "write_origin", fail)
    with pytest.raises(UserError, match="no space left"):
        update(project, data)
    assert files_of(project) == before


def test_hidden_labels_stay_hidden_and_excluded_cases_excluded(
    data: Path, tmp_path: Path, add: Callable[..., None]
) -> None:
    proposal = propose(find_cases(data), SplitChoice(hide_labels=1))
    project = create_project(tmp_path / "project", proposal)
    text = project.splits_file.read_text()
    project.splits_file.write_text(text.replace('    "v",\n', ""))
    add("w", label=7)
    update(project, data)
    after = project.load_splits()
    assert after.labelled == ("a", "w")
    assert (after.unlabelled, after.hidden) == (("u", "b", "c"), ("b", "c"))


def test_a_new_scan_of_a_test_patient_is_kept_away_too(
    data: Path, tmp_path: Path, add: Callable[..., None]
) -> None:
    for id_ in ("p1_a", "p2_a"):
        add(id_, label=7)
    choice = SplitChoice(group_pattern=r"(p\d)_")
    project = create_project(tmp_path / "project", propose(find_cases(data), choice))
    write_splits(
        project.splits_file, Splits(("a", "b", "c", "p2_a"), ("u", "v"), (), test=("p1_a",))
    )
    add("p1_b", label=7)
    add("p2_b", label=7)
    update(project, data)
    after = project.load_splits()
    assert after.test == ("p1_a", "p1_b")
    assert "p2_b" in after.labelled
    add("p1_c")
    with pytest.raises(UserError, match=r"group 'p1' is in two parts.*'p1_c' in training"):
        update(project, data)


def test_where_the_data_moves_a_case_the_project_does_not(data: Path, tmp_path: Path) -> None:
    table = tmp_path / "cases.csv"

    def write(part_of_b: str, *more: str) -> None:
        rows = ["image,label,split"]
        parts = {"a": "labelled", "b": part_of_b, "c": "labelled"}
        scans = {id_: f"images/{id_}.nii.gz,{data}/labels/{id_}.nii.gz" for id_ in parts}
        rows += [f"{data}/{scans[id_]},{part}" for id_, part in parts.items()]
        rows += more
        table.write_text("\n".join(rows))

    write("test")
    project = init_project(table, tmp_path / "project")
    write("labelled", "data/images/u.nii.gz,,unlabelled")
    proposed = update(project, table)
    assert proposed.proposal.origin.notes == (
        "the data names case 'b' for labelled; the project keeps it in test",
    )
    assert project.load_splits().parts == {
        "labelled": ("a", "c"),
        "unlabelled": ("u",),
        "validation": (),
        "test": ("b",),
    }


def test_a_copy_of_a_test_image_is_refused(data: Path, tmp_path: Path) -> None:
    project = init_project(data, tmp_path / "project", test=1)
    (kept,) = project.load_splits().test
    copy = (data / "images" / f"{kept}.nii.gz").read_bytes()
    (data / "images" / "copy.nii.gz").write_bytes(copy)
    with pytest.raises(UserError, match=r"\(test\) and case 'copy' \(unlabelled\)|'copy'.*test"):
        update(project, data)
