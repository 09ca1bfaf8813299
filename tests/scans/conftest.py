"""Small NIfTI files, made with nibabel alone."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
from numpy.typing import NDArray

Save = Callable[..., Path]


@pytest.fixture
def save(tmp_path: Path) -> Save:
    """Save voxels and an affine as `name` in a fresh folder."""

    def save_file(
        voxels: NDArray[Any], affine: NDArray[Any] | None = None, name: str = "scan.nii.gz"
    ) -> Path:
        image = nibabel.Nifti1Image(voxels, np.eye(4) if affine is None else affine)
        nibabel.save(image, tmp_path / name)
        return tmp_path / name

    return save_file
