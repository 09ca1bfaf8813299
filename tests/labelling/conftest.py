"""A project with unlabelled scans and a run that can be asked which of them to label."""

from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from samples import SHAPE, make_project

import tracoco as tc
from tracoco.project.folder import Project

SETTINGS = {
    "training.steps": 4,
    "data.crop": [16, 16, 16],
    "network.filters": 4,
    "data.workers": 0,
}


@pytest.fixture
def labelled_project(tmp_path: Path) -> Project:
    """2 labelled, 4 unlabelled, 1 validation and 1 test case."""
    return make_project(tmp_path, labelled=4, unlabelled=4, validation=1, test=1)


@pytest.fixture
def run(labelled_project: Project) -> tc.Run:
    """A few steps of two networks."""
    return tc.train(labelled_project, settings=SETTINGS, progress=False)


def draw(path: Path, *, value: int = 1, size: int = 4) -> Path:
    """Draw a box into the middle of a label, as a person who corrects it."""
    image = nib.Nifti1Image.from_filename(path)
    array = np.zeros(SHAPE, np.uint8)
    array[10 : 10 + size, 10 : 10 + size, 8 : 8 + size] = value
    nib.save(nib.Nifti1Image(array, image.affine), path)
    return path
