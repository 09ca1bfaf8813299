import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import nibabel
import numpy as np
import pytest

from tracoco.errors import UserError
from tracoco.files import read_json, write_json
from tracoco.project.create import init_project
from tracoco.project.folder import Project
from tracoco.project.prepare import prepare
from tracoco.project.preprocess import normalise
from tracoco.project.store import Store, StoredCase, array_file, facts_file
from tracoco.scans.reader import read_image, read_label

Save = Callable[..., Path]


@pytest.fixture
def project(data: Path, tmp_path: Path) -> Project:
    project = init_project(data, tmp_path / "project")
    prepare(project)
    return project


@pytest.fixture
def store(project: Project) -> Store:
    return Store(project.store_root)


def test_cases_are_known_by_id(store: Store) -> None:
    assert store.ids == ("a", "b", "c", "u", "v")
    assert store.case("u") == StoredCase("u", store.root, (4, 5, 6), None, (1, 1, 1))


def test_arrays_are_those_of_the_scans(store: Store, project: Project, data: Path) -> None:
    case, plan = store.case("a"), project.load_plan()
    image = read_image(data / "images" / "a.nii.gz").array
    label = read_label(data / "labels" / "a.nii.gz").array
    assert case.image().dtype == np.float32
    assert np.array_equal(case.image()[0], normalise(image[0], plan))
    assert case.label().dtype == np.uint8
    assert np.array_equal(case.label(), label == 7)
    assert case.class_voxels == (np.sum(label == 0), np.sum(label == 7))
    assert case.label()[tuple(case.foreground().T)].all()
    assert len(case.foreground()) == case.class_voxels[1]


def test_arrays_are_mapped_once_and_cannot_be_changed(store: Store) -> None:
    case = store.case("a")
    first = case.image()
    assert isinstance(first, np.memmap)
    assert case.image() is first
    with pytest.raises(ValueError, match="read-only"):
        first[0, 0, 0, 0] = 1


def test_an_array_that_was_prepared_anew_is_mapped_anew(
    store: Store, project: Project, data: Path
) -> None:
    before = store.case("a").image()
    shutil.copy(data / "images" / "b.nii.gz", data / "images" / "a.nii.gz")
    prepare(project)
    assert np.array_equal(store.case("a").image(), store.case("b").image())
    assert not np.array_equal(before, store.case("a").image())


@pytest.mark.parametrize("part", ["image", "label", "foreground"])
def test_a_flipped_bit_in_an_array_is_told_and_prepare_mends_it(
    part: str, store: Store, project: Project
) -> None:
    file = array_file(store.root, "a", part)
    content, before = file.read_bytes(), file.stat()
    flipped = bytearray(content)
    flipped[-5] ^= 4
    file.write_bytes(flipped)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(UserError, match=rf"a\.{part}\.npy is damaged.*tracoco prepare"):
        getattr(store.case("a"), part)()
    prepare(project)
    assert file.read_bytes() == content
    getattr(store.case("a"), part)()


def test_a_flipped_bit_in_the_facts_is_told_and_prepare_mends_it(
    store: Store, project: Project
) -> None:
    file = facts_file(store.root, "a")
    content = file.read_text()
    assert '"spacing_mm": [\n    1.0' in content
    file.write_text(content.replace('"spacing_mm": [\n    1.0', '"spacing_mm": [\n    3.0'))
    with pytest.raises(UserError, match=r"a\.json is damaged.*tracoco prepare"):
        store.case("a")
    prepare(project)
    assert store.case("a").spacing_mm == (1, 1, 1)


def test_a_store_of_an_earlier_version_is_read_and_gets_its_digests_from_prepare(
    store: Store, project: Project
) -> None:
    file = facts_file(store.root, "a")
    known = read_json(file)
    write_json(file, {key: known[key] for key in known.keys() - {"arrays", "digest"}})
    store.case("a").image()
    prepare(project)
    assert read_json(file) == known


def test_an_unlabelled_case_has_no_label(store: Store) -> None:
    case = store.case("u")
    with pytest.raises(ValueError, match="case 'u' is unlabelled"):
        case.label()
    with pytest.raises(ValueError, match="case 'u' is unlabelled"):
        case.foreground()
    assert case.image().shape == (1, 4, 5, 6)


def test_2d_projects_store_slices_first(data: Path, tmp_path: Path, save: Save) -> None:
    for part in ("images", "labels"):
        for file in (data / part).iterdir():
            save(file, np.asarray(nibabel.load(file).dataobj), (1, 1, 3))
    project = init_project(data, tmp_path / "flat", dimensions=2)
    prepare(project)
    case = Store(project.store_root).case("a")
    assert case.shape == (6, 4, 5)
    image = normalise(read_image(data / "images" / "a.nii.gz").array[0], project.load_plan())
    assert np.array_equal(case.image()[0, 3], image[:, :, 3])
    assert case.foreground().max(axis=0)[0] <= 5


def test_a_missing_case_says_how_to_prepare_it(store: Store, project: Project) -> None:
    with pytest.raises(UserError, match=f"case 'x' is not prepared .*prepare {project.root}`"):
        store.case("x")


@pytest.mark.parametrize("content", [None, b"", b"\x93NUMPY half"])
def test_a_lost_or_broken_array_says_how_to_prepare_it(store: Store, content: bytes | None) -> None:
    path = store.root / "a.image.npy"
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    with pytest.raises(UserError, match="tracoco prepare"):
        store.case("a").image()


def test_a_store_of_another_plan_is_refused(store: Store, project: Project) -> None:
    plan, splits = project.load_plan(), project.load_splits()
    store.check(splits, plan)
    store.check(splits, plan.model_copy(update={"crop": (8, 8, 8)}))
    with pytest.raises(UserError, match=r"another plan than plan\.yaml"):
        store.check(splits, plan.model_copy(update={"low_percentile": 2.0}))
    with pytest.raises(UserError, match="case 'x' is not prepared"):
        store.check(replace(splits, unlabelled=("x",)), plan)


def test_a_case_that_was_prepared_without_its_label_is_refused_as_labelled(
    store: Store, project: Project
) -> None:
    splits = project.load_splits()
    promoted = replace(splits, labelled=(*splits.labelled, *splits.unlabelled), unlabelled=())
    with pytest.raises(UserError, match="is not prepared"):
        store.check(promoted, project.load_plan())


def test_the_hash_follows_the_sources(store: Store, project: Project, data: Path) -> None:
    before = store.hash()
    prepare(project)
    assert store.hash() == before
    image = data / "images" / "u.nii.gz"
    image.write_bytes((data / "images" / "v.nii.gz").read_bytes())
    prepare(project)
    assert store.hash() != before


def test_an_empty_store_has_no_cases(tmp_path: Path) -> None:
    assert Store(tmp_path / "store").ids == ()
