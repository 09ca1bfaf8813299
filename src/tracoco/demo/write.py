"""Phantom scans as files, laid out as a user's own data would be."""

from dataclasses import dataclass
from pathlib import Path

import nibabel as nib
import numpy as np
from rich.console import Console

from tracoco.console import counted
from tracoco.demo.phantom import SPACING_MM, make_phantom
from tracoco.files import atomic_path

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
