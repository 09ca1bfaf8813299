"""The demo: synthetic scans written as files, and the path that a user's own data would take."""

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
from rich.console import Console

from tracoco.console import counted, progress_console
from tracoco.demo.phantom import SPACING_MM, make_phantom
from tracoco.errors import UserError
from tracoco.evaluation.evaluate import evaluate_predictions
from tracoco.files import atomic_path
from tracoco.inference.predict import predict_scans
from tracoco.lock import only_writer, own_content
from tracoco.presets import load_config
from tracoco.project.create import init_project
from tracoco.project.folder import Project
from tracoco.project.prepare import prepare
from tracoco.reporting.comparison import ComparisonRow, compare_runs
from tracoco.reporting.page import write_report
from tracoco.training.train import train

LABELLED, UNLABELLED, VALIDATION, TEST = 2, 22, 2, 12


@dataclass(frozen=True, slots=True)
class DemoData:
    """Folders of a demo's scans."""

    data: Path
    """images/ of all training scans, labels/ of the few."""
    all_labels: Path
    """Labels of all training scans, which only the upper bound is given."""
    test_images: Path
    test_labels: Path


def demo_scans(folder: Path | str, *, seed: int = 0, progress: bool = True) -> DemoData:
    """Write synthetic scans to try the package on: 26 for training, 4 of them labelled; 12 to test.

    Args:
        folder: gets a folder `scans` for `init`, and a folder `test` with images and labels.
        seed: another one gives other scans.
        progress: show progress on standard error, or in a notebook.
    """
    return write_phantoms(Path(folder), seed, progress_console() if progress else None)


def write_phantoms(root: Path, seed: int, console: Console | None = None) -> DemoData:
    """Write the scans of one seed; which of them have a label is drawn with it too."""
    folders = DemoData(
        root / "scans", root / "hidden_labels", root / "test" / "images", root / "test" / "labels"
    )
    training = LABELLED + VALIDATION + UNLABELLED
    shown = np.random.default_rng([seed, training]).permutation(training)[: LABELLED + VALIDATION]
    with counted("drawing phantoms", training + TEST, console) as on_phantom:
        for index in range(training + TEST):
            phantom = make_phantom(seed, index)
            name = f"phantom_{index:03d}.nii.gz"
            test = index >= training
            images = folders.test_images if test else folders.data / "images"
            _write(images / name, phantom.image)
            _write((folders.test_labels if test else folders.all_labels) / name, phantom.label)
            if index in shown:
                _write(folders.data / "labels" / name, phantom.label)
            on_phantom(name)
    return folders


def _write(path: Path, array: np.ndarray) -> None:
    with atomic_path(path) as temporary:
        image = nib.Nifti1Image(array, np.diag([*SPACING_MM, 1.0]))
        nib.save(image, temporary)


@dataclass(frozen=True, slots=True)
class DemoResult:
    """What the demo found, and where it is."""

    rows: list[ComparisonRow]
    paths: dict[str, Path]
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "rows": [row.to_json() for row in self.rows],
            "paths": {name: str(path) for name, path in self.paths.items()},
            "seconds": self.seconds,
        }


def run_demo(out: Path, seed: int, device: str, console: Console | None) -> DemoResult:
    """Write phantoms, train on them with few labels, without the others and with all, compare."""
    if out.exists() and not out.is_dir():
        raise _in_use(out)
    with only_writer(out, "demo"):
        if own_content(out):
            raise _in_use(out)
        return _all_steps(out, seed, device, console)


def _in_use(out: Path) -> UserError:
    return UserError(f"{out} already exists; choose another --out, or delete it")


def _all_steps(out: Path, seed: int, device: str, console: Console | None) -> DemoResult:
    began = time.monotonic()
    phantoms = write_phantoms(out, seed, console)
    few = _project(phantoms.data, out / "project", None, seed, console)
    every = _project(phantoms.data, out / "project_all_labels", phantoms.all_labels, seed, console)
    bound = "supervised, all labels"
    runs = {
        "supervised": (few, few.runs_root / "supervised", "supervised"),
        "tracoco": (few, few.runs_root / "tracoco", "tracoco"),
        bound: (every, every.runs_root / "all_labels", "supervised"),
    }
    paths = {"scans": phantoms.data, "project": few.root}
    for title, (project, run, method) in runs.items():
        # Half of the paper's noise: phantoms have noise of their own.
        changes = [f"method.name={method}", "method.noise=0.1", f"seed={seed}"]
        config = load_config("demo", changes)
        stopped = train(project, config, run, device=device, console=console).signal
        if stopped:
            raise UserError(f"stopped by a signal while training '{title}'; {out} is incomplete")
        _test(run, phantoms, device, console)
        paths[title] = write_report(run)
    rows = compare_runs([run for _, run, _ in runs.values()])
    named = [replace(row, method=title) for row, title in zip(rows, runs, strict=True)]
    return DemoResult(named, paths, time.monotonic() - began)


def _project(
    data: Path, out: Path, labels: Path | None, seed: int, console: Console | None
) -> Project:
    project = init_project(data, out, labels=labels, validation=VALIDATION, seed=seed)
    with counted("preparing", len(project.load_splits().ids), console) as on_case:
        prepare(project, on_case)
    return project


def _test(run: Path, phantoms: DemoData, device: str, console: Console | None) -> None:
    """Score the run on the held-out test scans."""
    out = run / "predictions" / "test"
    predict_scans(run, phantoms.test_images, out, device=device, console=console)
    evaluate_predictions(out, phantoms.test_labels)
