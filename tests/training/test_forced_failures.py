"""Runs that are made to fail end no worse than their supervised part, and say what happened."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from samples import write_scan

from tracoco.demo.phantom import make_phantom
from tracoco.evaluation.validation import mean_dice
from tracoco.inference.predictor import Predictor
from tracoco.presets import load_config
from tracoco.project.create import init_project
from tracoco.project.folder import Project
from tracoco.project.prepare import prepare
from tracoco.project.store import Store
from tracoco.reporting.page import write_report
from tracoco.runs.log import read_log
from tracoco.training.train import train

SETTINGS = ["training.steps=700", "training.save_every=700"]
FORCED = ["method.unsupervised_weight=10", "method.rampup_steps=1"]
LABELLED, VALIDATION, TEST, UNLABELLED = 3, 4, 10, 8


def phantoms(root: Path, *, near_empty: bool = False) -> Project:
    """Phantom scans; near-empty labels have eight voxels of the structure each."""
    for index in range(LABELLED + VALIDATION + TEST + UNLABELLED):
        phantom = make_phantom(0, index)
        write_scan(root / "data" / "images" / f"scan{index:02d}.nii.gz", phantom.image)
        if index < LABELLED + VALIDATION + TEST:
            label = phantom.label
            if near_empty:
                places = np.argwhere(label)[:8]
                label = np.zeros_like(label)
                label[tuple(places.T)] = 1
            write_scan(root / "data" / "labels" / f"scan{index:02d}.nii.gz", label)
    project = init_project(root / "data", root / "project", validation=VALIDATION, test=TEST)
    prepare(project)
    return project


def trained(project: Project, method: str, changes: list[str]) -> Path:
    out = project.runs_root / method
    train(project, load_config("demo", [f"method.name={method}", *SETTINGS, *changes]), out)
    return out


def supervised_part(run: Path, checkpoint: Path) -> Path:
    """A copy of the run whose last weights are those from before unlabelled crops counted."""
    copy = run.with_name(f"{run.name}-supervised-part")
    shutil.copytree(run, copy)
    shutil.copy(checkpoint, copy / "last.pt")
    return copy


def dice(project: Project, run: Path) -> float:
    """In percent, on held-out scans."""
    store, predictor = Store(project.store_root), Predictor.load(run)
    cases = [store.case(id_) for id_ in project.load_splits().test]
    return 100 * mean_dice(
        predictor.method, cases, predictor.window, predictor.config, predictor.device
    )


@pytest.mark.slow
@pytest.mark.parametrize("method", ["tracoco", "cps", "mean-teacher"])
def test_ten_times_the_weight_at_once_does_no_harm(tmp_path: Path, method: str) -> None:
    project = phantoms(tmp_path)
    run = trained(project, method, FORCED)
    ends = sorted(run.glob("supervised-*.pt"), key=lambda path: path.stat().st_mtime)
    assert ends, "unlabelled crops have counted"
    assert dice(project, run) >= dice(project, supervised_part(run, ends[-1])) - 0.5
    page = write_report(run).read_text(encoding="utf-8")
    log = read_log(run / "log.jsonl")
    for sign, told in (
        ("restrained", "faded from the pseudo-labels"),
        ("lost", "went back to its weights from before"),
    ):
        assert any(getattr(record, sign) for record in log) == (told in " ".join(page.split()))
    doubted = any(record.unlabelled and record.unlabelled.doubted for record in log)
    assert doubted == ("the two networks disagreed on them" in " ".join(page.split()))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["tracoco", "cps"])
def test_labels_that_are_almost_empty_leave_unlabelled_scans_out(
    tmp_path: Path, method: str
) -> None:
    project = phantoms(tmp_path, near_empty=True)
    run = trained(project, method, FORCED)
    log = read_log(run / "log.jsonl")
    assert not any(record.unlabelled and record.unlabelled.weight for record in log)
    assert "Unlabelled scans never counted" in write_report(run).read_text(encoding="utf-8")
