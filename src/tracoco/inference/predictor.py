"""Predictor: a trained run as a function from a scan to labels on that scan's grid."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tracoco.config import InferenceConfig
from tracoco.errors import UserError
from tracoco.geometry import Index
from tracoco.inference.fast_network import ready_to_predict
from tracoco.inference.prediction import Prediction
from tracoco.inference.resample import resampled
from tracoco.inference.resized_slices import predict_resized
from tracoco.inference.scan_maps import ScanMaps, disagreement
from tracoco.inference.sliding_window import Predict, piece_axis, predict_pieces
from tracoco.inference.window_size import Cover, chosen_cover
from tracoco.methods.method import Method
from tracoco.project.plan import Plan
from tracoco.project.preprocess import check_channels, kept_box, to_network_grid
from tracoco.scans.reader import read_image
from tracoco.scans.scan import Scan
from tracoco.training.build import run_crop, run_method
from tracoco.training.checkpoint import Weights, has_averaged, load_checkpoint, method_state
from tracoco.training.run_folder import RunFolder
from tracoco.training.team import choose_device


@dataclass(frozen=True, slots=True)
class Predictor:
    """A trained method, ready for scans."""

    method: Method
    plan: Plan
    window: Index
    """Size of the crops of the training, which decides the size of the windows."""
    config: InferenceConfig
    device: torch.device
    watermark: str = ""
    """What must be said wherever a result of this checkpoint is shown; mostly nothing."""
    averaged: bool = False
    """Whether the method has the averaged weights of its run."""

    @classmethod
    def load(
        cls,
        run: Path | str,
        *,
        checkpoint: str = "last",
        device: str = "auto",
        weights: Weights = "averaged",
    ) -> "Predictor":
        """Load a run's folder; nothing outside of it is needed.

        Args:
            run: the folder.
            checkpoint: `last` or `best`.
            device: `auto`, `cpu`, `cuda`, `cuda:N` or `mps`.
            weights: `averaged` where the run has averaged weights, or `raw`.
        """
        folder = RunFolder(Path(run))
        config, plan, place = folder.config(), folder.plan(), choose_device(device)
        path = folder.checkpoint(checkpoint)
        if checkpoint == "best" and not path.exists():
            raise UserError(
                f"{path} does not exist: the run was not validated yet, or it has no validation "
                "cases; use last"
            )
        method = run_method(config, plan)
        saved = load_checkpoint(path)
        method.load_state_dict(method_state(saved, weights))
        averaged = weights == "averaged" and has_averaged(saved)
        method.to(place).eval()
        window, watermark = run_crop(config, plan), folder.watermark(checkpoint)
        return cls(method, plan, window, config.inference, place, watermark, averaged)

    def __call__(
        self,
        scan: Path | str | Scan | NDArray[np.generic],
        spacing_mm: Sequence[float] | None = None,
        *,
        maps: Sequence[str] = (),
        folder: Path | None = None,
    ) -> Prediction:
        """Predict a file, or an array [X, Y, Z] or [C, X, Y, Z] with its spacing.

        An array is taken to be in the axis order of the training scans, which is right-anterior-
        superior for files. `maps` may name `probability` (of each class), `entropy` (of these
        probabilities, in nats) and `disagreement` (between the two networks of a method that has
        two: 0 where they say the same, 1 where they share no class; the mean over the windows).
        Maps of a large scan with many classes take gigabytes: with a `folder` they are in files
        without a name there, and not in memory.
        """
        self.check_maps(maps)
        if isinstance(scan, np.ndarray):
            if spacing_mm is None:
                raise ValueError("an array needs its spacing_mm, e.g. predictor(array, (1, 1, 2))")
            array = (scan if scan.ndim == 4 else scan[None]).astype(np.float32)
            if not np.isfinite(array).all():
                raise ValueError("the array has voxels that are not finite; replace them first")
            found = self._maps(array, spacing_mm, "the array", maps, folder)
            return Prediction(found.label, None, found.maps)
        if not isinstance(scan, Scan):
            scan = read_image(Path(scan))
        found = self._maps(scan.array, scan.spacing_mm, str(scan.source), maps, folder)
        return Prediction(found.label, scan, found.maps)

    def check_maps(self, maps: Sequence[str]) -> None:
        """Refuse a map that the method cannot give."""
        alone = type(self.method).predict_members is Method.predict_members
        if "disagreement" in maps and alone:
            raise UserError(
                "disagreement is that of two co-trained networks, and this run's method has one; "
                "save entropy, or train with tracoco, cps or another method of two networks"
            )

    def cover(self, shape: Sequence[int]) -> Cover:
        """The windows for a scan of this shape on the grid of the network."""
        return chosen_cover(self.method, shape, self.window, self.config)

    def _maps(
        self,
        array: NDArray[np.float32],
        spacing_mm: Sequence[float],
        source: str,
        wanted: Sequence[str],
        folder: Path | None,
    ) -> ScanMaps:
        check_channels(len(array), self.plan, source)
        right, anterior, superior = spacing_mm
        spacing = (right, anterior, superior)
        box = kept_box(array, self.plan)
        prepared = torch.from_numpy(to_network_grid(array, spacing, self.plan, box)).to(self.device)
        x, y, z = array.shape[1:]
        found = ScanMaps((x, y, z), self.plan, wanted, box, folder)
        network_shape = prepared.shape[1:]
        cover = self.cover(network_shape)
        axis = piece_axis(network_shape, cover.window)
        scan_shape = [box.size[stored] for stored in self.plan.stored_axes]
        with ready_to_predict(self.method) as method:
            predict = _with_disagreement(method) if "disagreement" in wanted else method.predict
            pieces = self._pieces(predict, prepared, cover)
            for rows, channels in resampled(pieces, axis, network_shape, scan_shape):
                found.fill(axis, rows, channels)
        return found

    def _pieces(self, predict: Predict, prepared: Tensor, cover: Cover) -> Iterable[Tensor]:
        """The class probabilities, some rows of the scan after the other."""
        if self.plan.resize_slices:
            return [predict_resized(predict, prepared, self.window, self.config.batch)]
        return predict_pieces(predict, prepared, *cover)


def _with_disagreement(method: Method) -> Predict:
    """Class probabilities as `predict` gives them, and behind them the disagreement."""

    def predict(crops: Tensor) -> Tensor:
        members = method.predict_members(crops)
        return torch.cat([members[0], disagreement(*members[-2:])], dim=1)

    return predict
