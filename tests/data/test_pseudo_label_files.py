"""Pseudo-labels on their way from a folder into batches."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from samples import PLAIN, make_batch

from tracoco.config import DataConfig
from tracoco.data.batch import IGNORED
from tracoco.data.crop_pair import CropRule, draw_crop_pair
from tracoco.data.pseudo_label_files import Manifest, PseudoLabels
from tracoco.data.source import BatchSource
from tracoco.errors import UserError
from tracoco.project.folder import Project
from tracoco.project.store import Store, StoredCase
from tracoco.settings import AugmentationConfig

BUSY = DataConfig(
    turns=True,
    flips="all",
    foreground=0,
    augmentation=AugmentationConfig(strength="full"),
    workers=0,
)
STILL = DataConfig(**PLAIN, foreground=0, flips="all", turns=True, room=0.5, workers=0)


def filled(project: Project, root: Path) -> PseudoLabels:
    """For each unlabelled case a label that tells where each voxel is from."""
    labels, store = PseudoLabels(root), Store(project.store_root)
    manifest = labels.begin("weights", store.hash(), 0.5)
    for id_ in project.load_splits().unlabelled:
        shape = store.case(id_).shape
        places = np.indices(shape).sum(axis=0) % 7
        manifest = labels.add(manifest, id_, places.astype(np.uint8), classes=7)
    return labels


def source(project: Project, data: DataConfig, labels: PseudoLabels | None) -> BatchSource:
    splits = project.load_splits()
    cases = (splits.labelled, splits.unlabelled)
    return BatchSource(Store(project.store_root), *cases, rule_of(data), 3, pseudo_labels=labels)


@pytest.mark.parametrize("data", [BUSY, STILL])
def test_they_are_cut_turned_and_warped_like_labels(project: Project, data: DataConfig) -> None:
    case, rule = labelled_case(project), rule_of(data)
    for seed in range(6):
        one = draw_crop_pair(case, rule, np.random.default_rng(seed), labelled=True)
        two = draw_crop_pair(
            case,
            rule,
            np.random.default_rng(seed),
            labelled=False,
            pseudo_label=case.label(),
        )
        assert one.label is not None
        assert one.pseudo_label is two.label is None
        np.testing.assert_array_equal(two.pseudo_label, one.label)
        np.testing.assert_array_equal(two.first.values, one.first.values)


def labelled_case(project: Project) -> StoredCase:
    return Store(project.store_root).case(project.load_splits().labelled[0])


def rule_of(data: DataConfig) -> CropRule:
    return CropRule((12, 12, 12), (0, 1), turns=True, config=data, pairs=False)


def test_they_change_nothing_else_of_a_batch(project: Project, tmp_path: Path) -> None:
    labels, splits = filled(project, tmp_path), project.load_splits()
    for step in range(3):
        batch, without = (source(project, BUSY, each)[step] for each in (labels, None))
        assert without.pseudo_labels is None
        assert torch.equal(batch.first.values, without.first.values)
        assert torch.equal(batch.labels, without.labels)
        assert batch.pseudo_labels is not None
        assert batch.pseudo_labels.shape == (2, 12, 12, 12)
        assert set(batch.cases[2:]) <= set(splits.unlabelled)


def test_without_augmentation_a_crop_is_a_box_of_the_label(
    project: Project, tmp_path: Path
) -> None:
    labels = filled(project, tmp_path)
    plain = DataConfig(**PLAIN, flips="none", turns=False, workers=0)
    batch = source(project, plain, labels)[0]
    assert batch.pseudo_labels is not None
    for index, id_ in enumerate(batch.cases[2:]):
        whole = labels.label(Store(project.store_root).case(id_))
        start = batch.first.start[2 + index]
        box = tuple(slice(a, a + 12) for a in start)
        np.testing.assert_array_equal(batch.pseudo_labels[index].numpy(), whole[box])


def test_a_batch_carries_them_along() -> None:
    batch = make_batch(2)
    assert batch.pseudo_labels is not None
    batch = replace(batch, pseudo_labels=batch.pseudo_labels.to(torch.uint8))
    moved = batch.to(torch.device("cpu"))
    assert moved.pseudo_labels is not None
    assert moved.pseudo_labels.dtype == torch.long
    assert replace(batch, pseudo_labels=None).to(torch.device("cpu")).pseudo_labels is None


def test_the_manifest_counts_classes_and_what_is_ignored(tmp_path: Path) -> None:
    labels = PseudoLabels(tmp_path / "labels")
    manifest = labels.begin("w", "s", 0.9)
    one = np.array([[[0, 1, 1, IGNORED]]], np.uint8)
    manifest = labels.add(manifest, "a", one, 3)
    manifest = labels.add(manifest, "b", np.array([[[2, IGNORED, 0, 0]]], np.uint8), 3)
    assert manifest == labels.manifest() == labels.begin("w", "s", 0.9)
    assert manifest.class_fractions == pytest.approx((3 / 6, 2 / 6, 1 / 6))
    assert manifest.counted == 0.75
    changed = labels.add(manifest, "b", one, 3)
    assert changed.hash() != manifest.hash()
    assert Manifest("w", "s", 0.9).counted == 0


def test_other_labels_are_never_mixed_in(tmp_path: Path) -> None:
    labels = PseudoLabels(tmp_path)
    labels.add(labels.begin("w", "s", 0.9), "a", np.zeros((1, 1, 1), np.uint8), 2)
    for other in (("x", "s", 0.9), ("w", "x", 0.9), ("w", "s", 0.8)):
        with pytest.raises(UserError, match="pseudo-labels of other weights, scans or"):
            labels.begin(*other)


def test_missing_and_broken_labels_are_told(project: Project, tmp_path: Path) -> None:
    labels = filled(project, tmp_path)
    case = labelled_case(project)
    id_ = project.load_splits().unlabelled[0]
    found = Store(project.store_root).case(id_)
    labels.check([id_])
    with pytest.raises(UserError, match="lacks pseudo-labels of nobody"):
        labels.check([id_, "nobody"])
    with pytest.raises(UserError, match="cannot be read as a pseudo-label"):
        labels.label(case)  # a labelled one
    labels.file(case.id).write_bytes(labels.file(id_).read_bytes()[:40])
    with pytest.raises(UserError, match="cannot be read as a pseudo-label"):
        labels.label(case)
    np.savez(labels.file(id_), label=np.zeros((2, 2, 2), np.uint8))
    with pytest.raises(UserError, match="is of another scan"):
        labels.label(found)
    np.savez(labels.file(id_), label=np.array([object()]))
    with pytest.raises(UserError, match="cannot be read as a pseudo-label"):
        labels.label(found)
    labels.file(id_).unlink()
    with pytest.raises(UserError, match="lacks pseudo-labels"):
        labels.check([id_])
    with pytest.raises(UserError, match="holds no pseudo-labels"):
        PseudoLabels(tmp_path / "none").manifest()
