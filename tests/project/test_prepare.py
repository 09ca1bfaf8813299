import errno
import json
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest

from tracoco.errors import UserError
from tracoco.project.folder import Project, init_project
from tracoco.project.prepare import prepare

Save = Callable[..., Path]


@pytest.fixture
def project(data: Path, tmp_path: Path) -> Project:
    return init_project(data, tmp_path / "project", test=1)


def modified(project: Project) -> dict[str, int]:
    return {file.name: file.stat().st_mtime_ns for file in project.store_root.iterdir()}


def hide_label_of(project: Project, id_: str) -> None:
    splits = json.loads(project.splits_file.read_text())
    for part in ("labelled", "validation", "test"):
        splits[part] = [other for other in splits[part] if other != id_]
    splits["unlabelled"].append(id_)
    project.splits_file.write_text(json.dumps(splits))


def test_all_cases_are_prepared(project: Project) -> None:
    done: list[str] = []
    assert prepare(project, done.append) == 5
    assert done == ["a", "b", "c", "u", "v"]
    names = {file.name for file in project.store_root.iterdir()}
    assert {name for name in names if name.startswith("a.")} == {
        "a.image.npy",
        "a.label.npy",
        "a.foreground.npy",
        "a.json",
    }
    assert {name for name in names if name.startswith("u.")} == {"u.image.npy", "u.json"}


def test_the_facts_beside_a_case_say_where_it_comes_from(project: Project) -> None:
    prepare(project)
    facts = json.loads((project.store_root / "a.json").read_text())
    assert facts["shape"] == [4, 5, 6]
    assert facts["spacing_mm"] == [1, 1, 1]
    assert sum(facts["class_voxels"]) == 4 * 5 * 6
    assert facts["plan"] == project.load_plan().hash()
    assert len(facts["sources"]["images"][0]) == 64
    assert any("percentiles 0.5 and 99.5" in step for step in facts["steps"])
    assert json.loads((project.store_root / "u.json").read_text())["class_voxels"] is None


def test_what_is_done_is_not_done_again(project: Project) -> None:
    prepare(project)
    before = modified(project)
    assert prepare(project) == 5
    assert modified(project) == before


def test_only_what_changed_is_done_again(project: Project, data: Path, save: Save) -> None:
    prepare(project)
    before = modified(project)
    (project.store_root / "b.foreground.npy").unlink()
    (project.store_root / "c.json").unlink()
    save(data / "images" / "u.nii.gz", np.arange(120, dtype=np.float32).reshape(4, 5, 6))
    prepare(project)
    after = modified(project)
    assert after.keys() == before.keys()
    assert {name[0] for name in after if after[name] != before[name]} == {"b", "c", "u"}


def test_another_plan_prepares_all_cases_anew(project: Project) -> None:
    prepare(project)
    before = modified(project)
    plan = project.plan_file.read_text()
    project.plan_file.write_text(plan.replace("high_percentile: 99.5", "high_percentile: 95.0"))
    prepare(project)
    after = modified(project)
    assert all(after[name] != before[name] for name in before)


def test_the_label_of_an_unlabelled_case_is_never_opened(project: Project, data: Path) -> None:
    hidden = project.load_splits().labelled[0]
    hide_label_of(project, hidden)
    (data / "labels" / f"{hidden}.nii.gz").unlink()  # would raise if it were opened
    assert prepare(project) == 5
    assert not (project.store_root / f"{hidden}.label.npy").exists()


def test_a_label_that_is_hidden_later_leaves_the_store(project: Project) -> None:
    prepare(project)
    hidden = project.load_splits().labelled[0]
    hide_label_of(project, hidden)
    prepare(project)
    assert not (project.store_root / f"{hidden}.label.npy").exists()
    assert not (project.store_root / f"{hidden}.foreground.npy").exists()
    assert json.loads((project.store_root / f"{hidden}.json").read_text())["class_voxels"] is None


def test_all_problems_are_named_and_the_rest_is_prepared(
    project: Project, data: Path, save: Save
) -> None:
    save(data / "labels" / "a.nii.gz", np.full((4, 5, 6), 9, dtype=np.uint8))
    save(data / "images" / "u.nii.gz", np.full((4, 5, 6), np.nan))
    (data / "images" / "v.nii.gz").unlink()
    with pytest.raises(UserError) as error:
        prepare(project)
    text = str(error.value)
    assert text.startswith("3 problems:")
    assert "a.nii.gz has 120 voxels with the values 9" in text
    assert "u.nii.gz has 120 NaN or infinite voxels" in text
    assert "v.nii.gz cannot be read" in text
    assert {file.name[0] for file in project.store_root.iterdir()} == {"b", "c"}


def test_ids_that_are_no_file_names_are_refused(project: Project) -> None:
    for file in (project.cases_file, project.splits_file):
        file.write_text(file.read_text().replace('"u"', '"../u"'))
    with pytest.raises(UserError, match=r"case '\.\./u' cannot be the name of a file"):
        prepare(project)
    assert not project.store_root.exists()


def test_a_full_disk_ends_the_work_and_leaves_no_half_file(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(project)
    before = {file: file.read_bytes() for file in project.store_root.iterdir()}
    plan = project.plan_file.read_text()
    project.plan_file.write_text(plan.replace("high_percentile: 99.5", "high_percentile: 95.0"))

    def full(*_: object) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device")

    done: list[str] = []
    with monkeypatch.context() as patch:
        patch.setattr(np.lib.format, "write_array_header_1_0", full)
        with pytest.raises(UserError, match=r"a\.image\.npy: no space left"):
            prepare(project, done.append)
    assert done == []
    assert {file: file.read_bytes() for file in project.store_root.iterdir()} == before
    assert prepare(project) == 5  # and the same command goes on
    image = project.store_root / "a.image.npy"
    assert image.read_bytes() != before[image]
