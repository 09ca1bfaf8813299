"""Predictor: a trained run as a function from a scan to labels on that scan's grid."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from tracoco.config import InferenceConfig
from tracoco.errors import UserError, check_choice
from tracoco.geometry import Size, piece_axis
from tracoco.inference.ensemble import averaged, with_members
from tracoco.inference.folding import ready_to_predict
from tracoco.inference.manifest import Manifest
from tracoco.inference.maps import ScanMaps
from tracoco.inference.model_choice import PLAIN, Members, Views
from tracoco.inference.prediction import MAPS, Prediction
from tracoco.inference.sliding_window import Predict, chosen_cover, predict_pieces
from tracoco.inference.uncertainty import Asked, UncertaintyMeter, features_read
from tracoco.inference.windows import Cover, nearest, neighbours
from tracoco.methods import method_row
from tracoco.methods.method import Method
from tracoco.project.plan import Plan
from tracoco.project.preprocess import check_channels, kept_box, to_network_grid
from tracoco.runs.build import choose_device, run_crop, run_method
from tracoco.runs.folder import (
    RunFolder,
    Weights,
    has_averaged,
    load_with_digest,
    method_state,
    sound_checkpoint,
)
from tracoco.scans.in_memory import as_scan
from tracoco.scans.reader import read_image
from tracoco.scans.scan import Scan


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
    low, high, fraction = map(torch.from_numpy, neighbours(source[axis], target[axis]))
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
    there = [torch.from_numpy(nearest(size, length)).to(device) for size, length in pairs]
    back = [torch.from_numpy(nearest(length, size)).to(device) for size, length in pairs]
    resized = volume[:, :, there[0]][..., there[1]].movedim(0, 1)
    predictions = [predict(slices) for slices in resized.split(batch)]
    return torch.cat([one[:, :, back[0]][..., back[1]] for one in predictions]).movedim(0, 1)


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
    checkpoint_digest: str = ""
    """SHA-256 of the file that the weights were read from."""
    views: Views = PLAIN
    others: tuple[Method, ...] = ()
    """Methods of further runs whose probabilities are averaged with those of the first."""

    @classmethod
    def load(
        cls,
        run: Path | str,
        *,
        checkpoint: str = "last",
        device: str = "auto",
        weights: Weights = "averaged",
        members: Members = "first",
        mirror: bool = False,
    ) -> "Predictor":
        """Load a run's folder; nothing outside of it is needed.

        Args:
            run: the folder.
            checkpoint: `last` or `best`.
            device: `auto`, `cpu`, `cuda`, `cuda:N` or `mps`.
            weights: `averaged` where the run has averaged weights, or `raw`.
            members: `both` averages two networks that were trained together.
            mirror: average mirrored views, along the plan's `mirror_axes`.
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
        saved, digest = load_with_digest(path)
        with sound_checkpoint(path):
            method.load_state_dict(method_state(saved, weights))
        averaged = weights == "averaged" and has_averaged(saved)
        method.to(place).eval()
        window, watermark = run_crop(config, plan), folder.watermark(checkpoint)
        views = Views(members, mirror)
        views.check(method, plan)
        made = cls(method, plan, window, config.inference, place, watermark, averaged, digest)
        return replace(made, views=views)

    def with_others(self, others: Sequence["Predictor"]) -> "Predictor":
        """This one and others as one whose probabilities are the mean; all see the same windows."""
        for number, other in enumerate(others, start=2):
            for what, own, theirs in (
                ("other labels", self.plan.label_values, other.plan.label_values),
                ("other crops", self.window, other.window),
                ("another preparation of scans", self.plan.hash(), other.plan.hash()),
                ("other inference settings", self.config, other.config),
            ):
                if own != theirs:
                    raise UserError(
                        f"run {number} has {what} than the first; runs that are averaged must have "
                        "one plan, crop and inference settings"
                    )
        marks = dict.fromkeys(each.watermark for each in (self, *others) if each.watermark)
        methods = (*self.others, *(other.method for other in others))
        return replace(self, others=methods, watermark="; ".join(marks))

    def __call__(
        self,
        scan: Any,
        spacing_mm: Sequence[float] | None = None,
        *,
        maps: Sequence[str] = (),
        folder: Path | None = None,
        uncertainty: bool = False,
    ) -> Prediction:
        """Predict a scan: a path, an image of nibabel or SimpleITK, or an array with its spacing.

        An array or tensor is [X, Y, Z] or [C, X, Y, Z]. It is taken to be in the axis order of the
        training scans, which is right-anterior-superior for files. `maps` may name `probability`
        (of each class), `entropy` (of these probabilities, in nats) and `disagreement` (between the
        two networks of a method that has two: 0 where they say the same, 1 where they share no
        class; the mean over the windows). Maps of a large scan with many classes take gigabytes:
        with a `folder` they are in files without a name there, and not in memory. `uncertainty`
        measures how unsure the networks are of the whole scan.
        """
        self.check_maps(maps)
        members = self.method.has_members
        meter = UncertaintyMeter(self.plan.classes, members=members) if uncertainty else None
        asked = Asked(maps, folder, meter)
        if isinstance(scan, Tensor):
            scan = scan.numpy(force=True)
        if isinstance(scan, np.ndarray):
            if spacing_mm is None:
                raise ValueError("an array needs its spacing_mm, e.g. predictor(array, (1, 1, 2))")
            array = (scan if scan.ndim == 4 else scan[None]).astype(np.float32)
            if not np.isfinite(array).all():
                raise ValueError("the array has voxels that are not finite; replace them first")
            return self._predict(array, spacing_mm, "the array", asked)
        if isinstance(scan, Path | str):
            scan = read_image(Path(scan))
        elif not isinstance(scan, Scan):
            scan = as_scan(scan)
        found = self._predict(scan.array, scan.spacing_mm, str(scan.source), asked)
        return replace(found, scan=scan)

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

    def _predict(
        self, array: NDArray[np.float32], spacing_mm: Sequence[float], source: str, asked: Asked
    ) -> Prediction:
        check_channels(len(array), self.plan, source)
        right, anterior, superior = spacing_mm
        spacing = (right, anterior, superior)
        box = kept_box(array, self.plan)
        stored = to_network_grid(array, spacing, self.plan, box, source)
        prepared = torch.from_numpy(stored).to(self.device)
        x, y, z = array.shape[1:]
        found = ScanMaps((x, y, z), self.plan, asked.maps, box, asked.folder)
        network_shape = prepared.shape[1:]
        cover = self.cover(network_shape)
        axis = piece_axis(network_shape, cover.window)
        scan_shape = [box.size[stored] for stored in self.plan.stored_axes]
        meter = asked.meter
        with self.predicting(disagreement="disagreement" in asked.maps, meter=meter) as predict:
            pieces = self._pieces(predict, prepared, cover)
            pieces = meter.watch(pieces) if meter else pieces
            for rows, channels in resampled(pieces, axis, network_shape, scan_shape):
                found.fill(axis, rows, channels)
        unsure = meter.result() if meter else None
        return Prediction(found.label, None, found.maps, unsure, self.plan.structures)

    @contextmanager
    def predicting(
        self, *, disagreement: bool = False, meter: UncertaintyMeter | None = None
    ) -> Iterator[Predict]:
        """Class probabilities of crops, and behind them what else was asked for."""
        compared = meter is not None and meter.members
        with ready_to_predict(self.method) as method, ExitStack() as stack:
            mean: Predict | None = None
            if self.others or self.views != PLAIN:
                methods = (method, *self.others)
                mean = stack.enter_context(averaged(methods, self.views, self.plan))
            if meter:
                stack.enter_context(features_read(method.inference_network(), meter))
            if disagreement or compared:
                yield with_members(method, mean, as_map=disagreement, compared=compared)
            else:
                yield mean or method.predict

    def _pieces(self, predict: Predict, prepared: Tensor, cover: Cover) -> Iterable[Tensor]:
        """The class probabilities, some rows of the scan after the other."""
        if self.plan.resize_slices:
            return [predict_resized(predict, prepared, self.window, self.config.batch)]
        return predict_pieces(predict, prepared, *cover)


def load_with_manifest(
    runs: Sequence[Path], checkpoint: str, weights: Weights, views: Views, device: str
) -> tuple[Predictor, Manifest]:
    """The predictor of one or several runs, and what a manifest says of it, without a case."""
    first, *others = (
        Predictor.load(
            run,
            checkpoint=checkpoint,
            device=device,
            weights=weights,
            members=views.members,
            mirror=views.mirror,
        )
        for run in runs
    )
    predictor, plan = first.with_others(others), first.plan
    hashes = [each.checkpoint_digest for each in (first, *others)]
    parts = [
        f"mean with {run.absolute()} ({sha[:12]})" for run, sha in zip(runs, hashes, strict=True)
    ]
    return predictor, Manifest(
        run=str(runs[0].absolute()),
        checkpoint=checkpoint,
        weights=hashes[0],
        averaged=predictor.averaged,
        variant="; ".join([*parts[1:], *([views.text] if views.text else [])]),
        watermark=predictor.watermark,
        labels=dict(zip(plan.label_values[1:], plan.class_names[1:], strict=True)),
        ignore=plan.ignore_label,
    )


def check_segments(run: Path, method: str) -> None:
    """Refuse a run that has learnt features alone, with the command that makes use of them."""
    if not method_row(method).segments:
        raise UserError(
            f"{run} predicts nothing: '{method}' learns features and no segmentation; train one "
            f"that starts from it: tracoco train PROJECT --method tracoco --init-from {run}"
        )
