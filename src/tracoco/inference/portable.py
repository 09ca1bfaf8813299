"""Prediction without torch: an exported network from a scan to labels on that scan's grid.

The file of an exported network describes itself: what is done to a scan before and after the
network stands in it as JSON (`ModelDescription`).
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracoco.config import InferenceConfig
from tracoco.errors import UserError
from tracoco.files import content_hash
from tracoco.geometry import Size
from tracoco.inference.manifest import Manifest
from tracoco.inference.prediction import Prediction
from tracoco.inference.windows import (
    Cover,
    WindowNeeds,
    fitting_cover,
    nearest,
    padding,
    resized,
    window_places,
    window_weight,
)
from tracoco.project.plan import Plan
from tracoco.project.preprocess import check_channels, kept_box, normalised_channels, raw_values
from tracoco.scans.in_memory import as_scan
from tracoco.scans.reader import read_image
from tracoco.scans.scan import Scan
from tracoco.settings import Settings, checked

ENTRY = "tracoco"
"""Name of the description inside of a model's file."""
Array = NDArray[np.float32]
Network = Callable[[Array], Array]
"""Crops [B, C, ...] to class probabilities [B, K, ...]."""


class ModelDescription(Settings):
    """All that has to be known to use an exported network."""

    tracoco: str
    """Version of the package that wrote the file."""
    run: str
    method: str
    checkpoint: str
    averaged: bool
    """Whether the weights are the averaged ones of the run."""
    watermark: str = ""
    """What must be said wherever a result is shown; mostly nothing."""
    input: str = "crops"
    """float32 [batch, channels, axes...], normalised; axes in the order of the plan."""
    output: str = "probabilities"
    """float32 [batch, classes, axes...]; they sum to 1 over the classes."""
    orientation: str = "RAS+"
    """Axis order of scans before the plan's `slice_axis` comes first."""
    window: Size
    """Voxels of the windows in the order of the plan's axes; 2D networks see slices of them."""
    multiple_of: Size | None
    """What each axis of the input must be divisible by; null where only `window` fits."""
    inference: InferenceConfig
    """Size of the windows, their overlap or stride, and their weights."""
    larger_windows: WindowNeeds | None = None
    """What windows larger than `window` need; null where they have that size alone."""
    plan: Plan
    """Spacing, axes, normalisation, windows of intensities, label values and class names."""

    def cover(self, shape: Sequence[int]) -> Cover:
        """The windows for a scan of this shape on the grid of the network."""
        return fitting_cover(self.larger_windows, shape, self.window, self.inference)

    def with_sizes(self, multiple: Size | None) -> "ModelDescription":
        """The same once it is known which crops the network takes."""
        needs = self.larger_windows if multiple else None
        return self.model_copy(update={"multiple_of": multiple, "larger_windows": needs})


@dataclass(frozen=True, slots=True)
class PortablePredictor:
    """An exported network with all that comes before and after it."""

    description: ModelDescription
    network: Network

    @property
    def plan(self) -> Plan:
        """How scans are brought to the network."""
        return self.description.plan

    def check_maps(self, maps: Sequence[str]) -> None:
        """Refuse maps, which are made by runs alone."""
        if maps:
            raise UserError(
                f"an exported model gives labels alone, and no {maps[0]}; predict with the run"
            )

    def __call__(
        self,
        scan: Any,
        spacing_mm: Sequence[float] | None = None,
        *,
        maps: Sequence[str] = (),
        folder: Path | None = None,  # noqa: ARG002 - there are no maps to put there
        uncertainty: bool = False,
    ) -> Prediction:
        """Predict a scan: a path, an image in memory, or an array with its spacing."""
        self.check_maps(maps)
        if uncertainty:
            raise UserError(
                "an exported model does not tell how unsure it is; predict with the run"
            )
        if isinstance(scan, np.ndarray):
            if spacing_mm is None:
                raise ValueError("an array needs its spacing_mm, e.g. predictor(array, (1, 1, 2))")
            array = (scan if scan.ndim == 4 else scan[None]).astype(np.float32)
            return Prediction(self._label(array, spacing_mm, "the array"), None)
        if isinstance(scan, Path | str):
            scan = read_image(Path(scan))
        elif not isinstance(scan, Scan):
            scan = as_scan(scan)
        return Prediction(
            self._label(scan.array, scan.spacing_mm, str(scan.source)),
            scan,
            structures=self.plan.structures,
        )

    def _label(self, array: Array, spacing_mm: Sequence[float], source: str) -> NDArray[Any]:
        plan = self.plan
        check_channels(len(array), plan, source)
        box = kept_box(array, plan)
        (x, y, z), (right, anterior, superior) = box.size, spacing_mm
        shape = plan.stored_shape((x, y, z), (right, anterior, superior))
        channels = normalised_channels(array, plan, box)
        prepared = np.stack([resized(channel, shape) for channel in channels])
        probability = self.volume(prepared)
        winner = _winner(probability, [box.size[axis] for axis in plan.stored_axes])
        label = np.zeros(array.shape[1:], raw_values(np.array(0), plan).dtype)
        label[box.slices].transpose(plan.stored_axes)[...] = raw_values(winner, plan)
        return label

    def volume(self, prepared: Array) -> Array:
        """Class probabilities [K, ...] of a scan [C, ...] on the grid of the network."""
        if self.plan.resize_slices:
            return self._resized_slices(prepared)
        window, config, crop = self.description.cover(prepared.shape[1:])
        amounts = padding(prepared.shape[1:], window, crop)
        padded = np.pad(prepared, [(0, 0), *amounts])
        weight = window_weight(window, config.weights)
        total = np.zeros(padded.shape[1:], np.float32)
        summed = np.zeros((self.plan.classes, *total.shape), np.float32)
        places = window_places(total.shape, window, config)
        for first in range(0, len(places), config.batch):
            boxes = places[first : first + config.batch]
            crops = np.stack([padded[:, *box.slices] for box in boxes])
            for box, found in zip(boxes, self._windows(crops), strict=True):
                summed[:, *box.slices] += found * weight
                total[box.slices] += weight
        summed /= total
        inner = [slice(b, b + n) for (b, _), n in zip(amounts, prepared.shape[1:], strict=True)]
        return summed[:, *inner]

    def _windows(self, crops: Array) -> Array:
        flat = self.plan.dimensions == 2
        found = self.network(crops[:, :, 0] if flat else crops)
        return found[:, :, None] if flat else found

    def _resized_slices(self, prepared: Array) -> Array:
        """Each slice resized to the window by its nearest voxels, and its probabilities back."""
        pairs = list(zip(prepared.shape[2:], self.description.window[1:], strict=True))
        there = [nearest(size, length) for size, length in pairs]
        back = [nearest(length, size) for size, length in pairs]
        slices = np.moveaxis(prepared[:, :, there[0]][..., there[1]], 1, 0)
        batch = self.description.inference.batch
        found = [self.network(slices[i : i + batch]) for i in range(0, len(slices), batch)]
        return np.moveaxis(np.concatenate(found)[:, :, back[0]][..., back[1]], 0, 1)


def _winner(probability: Array, shape: Sequence[int]) -> NDArray[np.uint8]:
    """Index of the largest class once all are resized; one class at a time at full size."""
    highest = resized(probability[0], shape)
    winner = np.zeros(highest.shape, np.uint8)
    for index, one in enumerate(probability[1:], start=1):
        value = resized(one, shape)
        winner[value > highest] = index
        highest = np.maximum(highest, value)
    return winner


def load_onnx(path: Path, device: str = "auto") -> tuple[PortablePredictor, Manifest]:
    """An exported model, and what a manifest says of it, still without a case."""
    if not path.is_file():
        raise UserError(f"{path} does not exist; write it with tracoco export RUN --format onnx")
    try:
        runtime: Any = import_module("onnxruntime")
    except ImportError:
        raise UserError(
            f"{path} needs onnxruntime; install it with pip install 'tracoco[onnx]'"
        ) from None
    cuda = "CUDAExecutionProvider"
    if device.startswith("cuda") and cuda not in runtime.get_available_providers():
        raise UserError(f"--device {device}: this onnxruntime has no CUDA; use cpu")
    providers = [cuda] if device.startswith("cuda") else ["CPUExecutionProvider"]
    try:
        session = runtime.InferenceSession(str(path), providers=providers)
    except Exception as error:  # noqa: BLE001 - its errors have no class of their own
        reason = str(error).splitlines()[0]
        raise UserError(
            f"{path} is damaged or is no ONNX file ({reason}); export it again"
        ) from None
    text = session.get_modelmeta().custom_metadata_map.get(ENTRY)
    if text is None:
        raise UserError(f"{path} was not written by tracoco export, so its scans are unknown")
    description = described(text, path)
    name = session.get_inputs()[0].name

    def network(crops: Array) -> Array:
        found: Array = session.run(None, {name: np.ascontiguousarray(crops)})[0]
        return found

    plan = description.plan
    manifest = Manifest(
        run=str(path.absolute()),
        checkpoint=description.checkpoint,
        weights=content_hash(path),
        averaged=description.averaged,
        watermark=description.watermark,
        labels=dict(zip(plan.label_values[1:], plan.class_names[1:], strict=True)),
        ignore=plan.ignore_label,
    )
    return PortablePredictor(description, network), manifest


def described(text: str, source: Path) -> ModelDescription:
    """The description inside of a model's file, checked."""
    try:
        values = json.loads(text)
    except ValueError as error:
        raise UserError(
            f"{source}: its description is no JSON ({error}); export it again"
        ) from None
    return checked(ModelDescription, values, str(source))
