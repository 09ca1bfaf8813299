"""One scan in each of the 48 orientations: its predictions are one in world space."""

from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
import torch
from samples import StandIn
from shared_data import shared_data
from torch import Tensor

from tracoco.config import InferenceConfig
from tracoco.inference.predictor import Predictor
from tracoco.project.plan import Plan
from tracoco.scans.reader import scan_stem, scans_in


class Bright(StandIn):
    """A network that marks bright voxels."""

    def predict(self, crops: Tensor) -> Tensor:
        bright = (8 * (crops - 0.5)).sigmoid()
        return torch.cat([1 - bright, bright], dim=1)


@pytest.mark.parametrize("spacing_mm", [None, (3.0, 2.5, 4.0)])
def test_bright_voxels_are_found_in_the_same_places(
    tmp_path: Path, spacing_mm: tuple[float, ...] | None
) -> None:
    root = shared_data("formats", "nifti_space")
    known = nib.Nifti1Image.from_filename(root / "RAS.nii.gz")
    plan = Plan.model_validate(
        {
            "dimensions": 3,
            "channels": 1,
            "label_values": (0, 7),
            "class_names": ("background", "bright"),
            "slice_axis": None,
            "spacing_mm": spacing_mm or tuple(map(float, known.header.get_zooms()[:3])),
            "crop": (32, 32, 32),
        }
    )
    config = InferenceConfig(overlap=0.0, batch=8)
    predictor = Predictor(Bright(), plan, (32, 32, 32), config, torch.device("cpu"))
    expected: np.ndarray | None = None
    files = scans_in(root)
    assert len(files) == 48
    for file in sorted(files, key=lambda path: scan_stem(path) != "RAS"):
        predictor(file).write(tmp_path / file.name)
        label = nib.Nifti1Image.from_filename(tmp_path / file.name)
        source = nib.Nifti1Image.from_filename(file)
        assert label.shape == source.shape
        assert np.array_equal(label.affine, source.affine)
        turned = nib.as_closest_canonical(label)
        np.testing.assert_allclose(turned.affine, known.affine, atol=1e-3)
        values = np.asarray(turned.dataobj)
        if expected is None:
            expected = values
            assert 0.001 < (values == 7).mean() < 0.9
        assert np.array_equal(values, expected), file.name
