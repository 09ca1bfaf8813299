"""Predictor: a trained run as a function from a scan to labels on that scan's grid."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from tracoco.components import remove_small_components
from tracoco.config import InferenceConfig
from tracoco.errors import UserError, check_choice
from tracoco.geometry import Size, piece_axis
from tracoco.inference.folding import ready_to_predict
from tracoco.inference.maps import MAPS, ByteMap, ScanMaps, disagreement
from tracoco.inference.sliding_window import Cover, Predict, chosen_cover, predict_pieces
from tracoco.methods import method_row
from tracoco.methods.method import Method
from tracoco.project.plan import Plan
from tracoco.project.preprocess import check_channels, kept_box, to_network_grid
from tracoco.runs.build import choose_device, run_crop, run_method
from tracoco.runs.folder import RunFolder, Weights, has_averaged, load_checkpoint, method_state
from tracoco.scans.in_memory import as_scan
from tracoco.scans.nifti import write_map
from tracoco.scans.reader import read_image, write_label
from tracoco.scans.scan import Grid, Scan, to_grid
from tracoco.text import html_table, number


@dataclass(frozen=True, slots=True)
class Prediction:
    """Label values [X, Y, Z] in canonical order (RAS+); `scan` is None for a plain array."""

    label: NDArray[np.integer[Any]]
    scan: Scan | None
    maps: Mapping[str, ByteMap] = field(default_factory=dict)
    """Those that were asked for, by name: see `Predictor.__call__`."""

    def without_small_components(self) -> "Prediction":
        """The same without components that are too small to be believed (CCT)."""
        return replace(self, label=remove_small_components(self.label))

    def on_grid(self) -> NDArray[np.integer[Any]]:
        """The labels in the axis order of the file or image that the scan came from."""
        labels: NDArray[np.integer[Any]] = to_grid(self.label, self._grid())
        return labels

    def write(self, path: Path | str) -> None:
        """Write the labels on the grid of the file or image that the scan came from."""
        write_label(Path(path), self.label, self._grid())

    def write_map(self, name: str, path: Path) -> None:
        """Write one of the maps on that grid, as NIfTI; classes are its fourth axis."""
        found = self.maps[name]
        write_map(path, found.levels, found.step, self._grid())

    def _repr_html_(self) -> str:
        """For a notebook: the slice through the middle of the structures, and their sizes."""
        from tracoco.slices import draw_slice  # noqa: PLC0415 - matplotlib is for notebooks alone

        has_geometry = self.scan is not None and self.scan.has_geometry
        spacing = self.scan.spacing_mm if self.scan else (1.0, 1.0, 1.0)
        image = self.scan.array[0] if self.scan else np.zeros(self.label.shape, np.float32)
        picture = f"<img src='{draw_slice(image, self.label, spacing)}'>"
        values, sizes = np.unique(self.label[self.label != 0], return_counts=True)
        voxel_ml = math.prod(spacing) / 1000
        rows = [
            (value, f"{size:,}", number(size * voxel_ml if has_geometry else None))
            for value, size in zip(values, sizes, strict=True)
        ]
        table = html_table(("label", "voxels", "ml"), rows) if rows else "no structure found"
        return f"<div>{picture}</div>{table}"

    def _grid(self) -> Grid:
        if self.scan is None:
            raise ValueError("a prediction of an array has no file's grid to be written on")
        return self.scan.grid


def resampled(
    pieces: Iterable[Tensor], axis: int, source: Sequence[int], target: Sequence[int]
) -> Iterator[tuple[slice, Iterator[Tensor]]]:
    """Rows of the target grid, and their values map by map.

    The values are those of `torch.nn.functional.interpolate` on whole maps, but for rounding
    (below 1e-5 for probabilities). The maps of a piece must be used before the next is asked for.

    Args:
        pieces: maps [K, ...] of a few rows along `axis` each, one piece after the other.
        axis: of the grids, which the pieces follow.
        source: shape of the whole maps.
        target: shape that they shall have.
    """
    low, high, fraction = _neighbours(source[axis], target[axis])
    plane = [length for index, length in enumerate(target) if index != axis]
    held: Tensor | None = None
    first = done = 0
    for piece in pieces:
        rows = piece.movedim(axis + 1, 1)
        held = rows if held is None else torch.cat([held, rows], dim=1)
        end = first + held.shape[1]
        ready = int((high < end).sum())  # both neighbours have come
        place = slice(done, ready)
        if ready > done:
            near = (low[place] - first, high[place] - first, fraction[place])
            yield place, _maps(held, near, plane, axis)
        # A row that waits for its upper neighbour has the last row as its lower one.
        held, first, done = held[:, -1:].clone(), end - 1, ready


def _maps(
    rows: Tensor, near: tuple[Tensor, Tensor, Tensor], plane: list[int], axis: int
) -> Iterator[Tensor]:
    low, high, fraction = (each.to(rows.device) for each in near)
    for one in rows:
        flat = one
        if list(one.shape[1:]) != plane:
            flat = F.interpolate(one[None], size=plane, mode="bilinear", align_corners=False)[0]
        below = flat[low]
        between = (
            torch.lerp(below, flat[high], fraction[:, None, None]) if fraction.any() else below
        )
        yield between.movedim(0, axis)


def _neighbours(source: int, target: int) -> tuple[Tensor, Tensor, Tensor]:
    """For each target row the rows around its centre, and the fraction of the upper one."""
    place = ((torch.arange(target) + 0.5) * (source / target) - 0.5).clamp(min=0)
    low = place.long().clamp(max=source - 1)
    fraction = place - low
    # A row that lies on another needs no second one, so nothing waits where nothing is resampled.
    high = torch.where(fraction > 0, low + 1, low).clamp(max=source - 1)
    return low, high, fraction


def predict_resized(predict: Predict, volume: Tensor, window: Size, batch: int) -> Tensor:
    """Class probabilities [K, X, Y, Z] of a volume [C, X, Y, Z] whose slices lie along X.

    Each slice is resized to the window by its nearest voxels, and the probabilities back in the
    same way: the label of a voxel is that of the resized voxel which is nearest to it.

    Args:
        predict: the network with its softmax, for 2D crops.
        volume: the scan as it is prepared for the network.
        window: one slice thick.
        batch: slices that go through at once.
    """
    if window[0] != 1:
        raise UserError(
            f"resize_slices is for 2D projects, but the window {list(window)} is not one slice "
            "thick; set it to false in plan.yaml"
        )
    device = volume.device
    pairs = list(zip(volume.shape[2:], window[1:], strict=True))
    there = [nearest(size, length).to(device) for size, length in pairs]
    back = [nearest(length, size).to(device) for size, length in pairs]
    resized = volume[:, :, there[0]][..., there[1]].movedim(0, 1)
    predictions = [predict(slices) for slices in resized.split(batch)]
    return torch.cat([one[:, :, back[0]][..., back[1]] for one in predictions]).movedim(0, 1)


def nearest(source: int, target: int) -> Tensor:
    """The index of the nearest of `source` voxels for each of `target` voxels.

    The first and the last voxels of both lie on each other, as in `scipy.ndimage.zoom` with order
    0. For some sizes that function leaves the last voxel empty, which is a rounding error.
    """
    step = (source - 1) / max(target - 1, 1)
    places = torch.arange(target, dtype=torch.float64) * step
    return (places + 0.5).floor().long().clamp(max=source - 1)


@dataclass(frozen=True, slots=True)
class Predictor:
    """A trained method, ready for scans."""

    method: Method
    plan: Plan
    window: Size
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
        check_choice("checkpoint", checkpoint, ("last", "best"))
        check_choice("weights", weights, get_args(Weights))
        folder = RunFolder(Path(run))
        config, plan, place = folder.config(), folder.plan(), choose_device(device)
        check_segments(folder.root, config.method.name)
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
        scan: Any,
        spacing_mm: Sequence[float] | None = None,
        *,
        maps: Sequence[str] = (),
        folder: Path | None = None,
    ) -> Prediction:
        """Predict a scan: a path, an image of nibabel or SimpleITK, or an array with its spacing.

        An array or tensor is [X, Y, Z] or [C, X, Y, Z]. It is taken to be in the axis order of the
        training scans, which is right-anterior-superior for files. `maps` may name `probability`
        (of each class), `entropy` (of these probabilities, in nats) and `disagreement` (between the
        two networks of a method that has two: 0 where they say the same, 1 where they share no
        class; the mean over the windows). Maps of a large scan with many classes take gigabytes:
        with a `folder` they are in files without a name there, and not in memory.
        """
        self.check_maps(maps)
        if isinstance(scan, Tensor):
            scan = scan.numpy(force=True)
        if isinstance(scan, np.ndarray):
            if spacing_mm is None:
                raise ValueError("an array needs its spacing_mm, e.g. predictor(array, (1, 1, 2))")
            array = (scan if scan.ndim == 4 else scan[None]).astype(np.float32)
            if not np.isfinite(array).all():
                raise ValueError("the array has voxels that are not finite; replace them first")
            found = self._maps(array, spacing_mm, "the array", maps, folder)
            return Prediction(found.label, None, found.maps)
        if isinstance(scan, Path | str):
            scan = read_image(Path(scan))
        elif not isinstance(scan, Scan):
            scan = as_scan(scan)
        found = self._maps(scan.array, scan.spacing_mm, str(scan.source), maps, folder)
        return Prediction(found.label, scan, found.maps)

    def check_maps(self, maps: Sequence[str]) -> None:
        """Refuse a map that does not exist, or that the method cannot give."""
        for name in maps:
            check_choice("map", name, MAPS)
        if "disagreement" in maps and not self.method.has_members:
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


def check_segments(run: Path, method: str) -> None:
    """Refuse a run that has learnt features alone, with the command that makes use of them."""
    if not method_row(method).segments:
        raise UserError(
            f"{run} predicts nothing: '{method}' learns features and no segmentation; train one "
            f"that starts from it: tracoco train PROJECT --method tracoco --init-from {run}"
        )


def _with_disagreement(method: Method) -> Predict:
    """Class probabilities as `predict` gives them, and behind them the disagreement."""

    def predict(crops: Tensor) -> Tensor:
        members = method.predict_members(crops)
        return torch.cat([members[0], disagreement(*members[-2:])], dim=1)

    return predict
