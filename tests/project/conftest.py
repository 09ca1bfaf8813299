"""Small data sets in a fresh folder, made with nibabel alone."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
from numpy.typing import NDArray

from tracoco.project.plan import Plan

SHAPE = (4, 5, 6)


@pytest.fixture
def save() -> Callable[..., Path]:
    """Save voxels at a path, with voxels of the given sides."""

    def save_file(
        path: Path, voxels: NDArray[Any], spacing_mm: Sequence[float] = (1, 1, 1)
    ) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        nibabel.save(nibabel.Nifti1Image(voxels, np.diag([*spacing_mm, 1])), path)
        return path

    return save_file


@pytest.fixture
def data(tmp_path: Path, save: Callable[..., Path]) -> Path:
    """Cases a, b, c with labels 0 and 7, and u, v without."""
    root = tmp_path / "data"
    random = np.random.default_rng(0)
    for id_ in "abcuv":
        image = random.normal(100, 20, SHAPE).astype(np.float32)
        save(root / "images" / f"{id_}.nii.gz", image)
        if id_ in "abc":
            save(root / "labels" / f"{id_}.nii.gz", (image > 100).astype(np.uint8) * 7)
    return root


@pytest.fixture
def plan() -> Plan:
    """A plan in 3D, with voxels of 1 x 2 x 3 mm and raw values 0, 7 and 300."""
    return Plan(
        dimensions=3,
        channels=1,
        label_values=(0, 7, 300),
        class_names=("background", "organ", "lesion"),
        slice_axis=None,
        spacing_mm=(1, 2, 3),
        crop=(16, 16, 16),
    )
