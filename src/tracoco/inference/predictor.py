"""Predictor: a trained run as a function from a scan to labels on that scan's grid."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tracoco.config import InferenceConfig
from tracoco.errors import UserError
from tracoco.geometry import Index
from tracoco.inference.components import remove_small_components
from tracoco.inference.sliding_window import predict_volume
from tracoco.methods.method import Method, evaluating
from tracoco.project.plan import Plan
from tracoco.project.preprocess import check_channels, raw_values, to_network_grid, to_scan_grid
from tracoco.scans.reader import read_image, write_label
from tracoco.scans.scan import Scan
from tracoco.training.build import run_crop, run_method
from tracoco.training.checkpoint import load_checkpoint
from tracoco.training.run_folder import RunFolder
from tracoco.training.team import choose_device


@dataclass(frozen=True, slots=True)
class Prediction:
    """Label values [X, Y, Z] of a scan; `scan` is there if it was read from a file."""

    label: NDArray[np.integer[Any]]
    scan: Scan | None

    def without_specks(self) -> "Prediction":
        """The same without components that are too small to be believed (CCT)."""
        return replace(self, label=remove_small_components(self.label))

    def write(self, path: Path) -> None:
        """Write the labels on the grid of the file that the scan came from."""
        if self.scan is None:
            raise ValueError("a prediction of an array has no file's grid to be written on")
        write_label(path, self.label, self.scan.grid)


@dataclass(frozen=True, slots=True)
class Predictor:
    """A trained method, ready for scans."""

    method: Method
    plan: Plan
    window: Index
    config: InferenceConfig
    device: torch.device
    watermark: str = ""
    """What must be said wherever a result of this checkpoint is shown; mostly nothing."""

    @classmethod
    def load(
        cls, run: Path | str, *, checkpoint: str = "last", device: str = "auto"
    ) -> "Predictor":
        """Load a run's folder; nothing outside of it is needed."""
        folder = RunFolder(Path(run))
        config, plan, place = folder.config(), folder.plan(), choose_device(device)
        path = folder.checkpoint(checkpoint)
        if checkpoint == "best" and not path.exists():
            raise UserError(
                f"{path} does not exist: the run was not validated yet, or it has no validation "
                "cases; use last"
            )
        method = run_method(config, plan)
        method.load_state_dict(load_checkpoint(path)["method"])
        method.to(place).eval()
        window, watermark = run_crop(config, plan), folder.watermark(checkpoint)
        return cls(method, plan, window, config.inference, place, watermark)

    def __call__(
        self,
        scan: Path | str | Scan | NDArray[np.generic],
        spacing_mm: Sequence[float] | None = None,
    ) -> Prediction:
        """Predict a file, or an array [X, Y, Z] or [C, X, Y, Z] with its spacing.

        An array is taken to be in the axis order of the training scans, which is right-anterior-
        superior for files.
        """
        if isinstance(scan, np.ndarray):
            if spacing_mm is None:
                raise ValueError("an array needs its spacing_mm, e.g. predictor(array, (1, 1, 2))")
            array = (scan if scan.ndim == 4 else scan[None]).astype(np.float32)
            if not np.isfinite(array).all():
                raise ValueError("the array has voxels that are not finite; replace them first")
            return Prediction(self._label(array, spacing_mm), None)
        if not isinstance(scan, Scan):
            scan = read_image(Path(scan))
        return Prediction(self._label(scan.array, scan.spacing_mm, str(scan.source)), scan)

    def _label(
        self, array: NDArray[np.float32], spacing_mm: Sequence[float], source: str = "the array"
    ) -> NDArray[np.integer[Any]]:
        check_channels(len(array), self.plan, source)
        x, y, z = spacing_mm
        prepared = torch.from_numpy(to_network_grid(array, (x, y, z), self.plan)).to(self.device)
        with evaluating(self.method):
            probability = predict_volume(self.method.predict, prepared, self.window, self.config)
        return raw_values(to_scan_grid(probability, array.shape[1:], self.plan), self.plan)
