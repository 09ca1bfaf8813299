"""Predictions to look at: scans of which every voxel is known."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest
from numpy.typing import NDArray

from tracoco.evaluation.evaluate import evaluate_predictions

SHAPE = (7, 6, 5)


@dataclass
class Folder:
    """A folder of predictions as `predict` writes it, its scans and labels beside it."""

    root: Path
    rows: list[dict[str, Any]] = field(default_factory=list)
    labels: dict[str, str] = field(default_factory=lambda: {"1": "organ"})

    @property
    def predictions(self) -> Path:
        return self.root / "predictions"

    def save(self, name: str, array: NDArray[Any], affine: NDArray[Any] | None = None) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        default = np.diag([1.0, 1.0, 2.0, 1.0])
        nib.save(nib.Nifti1Image(array, default if affine is None else affine), path)
        return path

    def add(
        self,
        case: str,
        image: NDArray[Any],
        prediction: NDArray[Any],
        truth: NDArray[Any] | None = None,
        affine: NDArray[Any] | None = None,
        **maps: NDArray[Any],
    ) -> None:
        """One predicted case; `maps` by name."""
        file = f"{case}.nii.gz"
        if truth is not None:
            self.save(f"labels/{file}", truth.astype(np.uint8), affine)
        named = {
            name: self.save(f"predictions/{case}_{name}.nii.gz", values, affine)
            for name, values in maps.items()
        }
        row = {
            "case": case,
            "images": [str(self.save(f"images/{file}", image, affine))],
            "prediction": str(
                self.save(f"predictions/{file}", prediction.astype(np.uint8), affine)
            ),
            "seconds": 1.0,
            "files": {name: str(path) for name, path in named.items()},
        }
        self.rows.append(row)
        manifest = {"run": str(self.root / "no-run"), "labels": self.labels, "rows": self.rows}
        (self.predictions / "predictions.json").write_text(json.dumps(manifest))

    def evaluate(self) -> None:
        """Score the predictions, so that there is a scores.json."""
        evaluate_predictions(self.predictions, self.root / "labels")


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


@pytest.fixture
def filled(folder: Folder) -> Folder:
    """Three cases: one right, one half right, one with a map and without truth but unscored."""
    image = np.arange(np.prod(SHAPE), dtype=np.float32).reshape(SHAPE)
    cube = np.zeros(SHAPE, np.uint8)
    cube[2:5, 2:4, 1:4] = 1
    folder.add("right", image, cube, cube)
    folder.add("shifted", image, np.roll(cube, 1, axis=0), cube)
    folder.evaluate()
    unsure = np.zeros(SHAPE, np.float32)
    unsure[3, 2, 1] = 0.5
    folder.add("unlabelled", image, cube, disagreement=unsure, entropy=unsure)
    return folder
