"""Volumes of a case as a page reads them: bytes with x fastest, a step, and what they mean."""

import gzip
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracoco.errors import UserError, collected
from tracoco.scans.reader import read_image, read_images, read_label
from tracoco.scans.scan import Scan, Spacing, check_same_grid, on_grid_of
from tracoco.viewer.cases import ViewCase, ViewSet

SHOWN_LEVELS = 2048
"""Levels between which the usual intensities of a scan are told apart; a screen shows 256."""
USUAL = (1.0, 99.0)
"""Percentiles of the intensities of a scan between which its window lies by default."""


@dataclass(frozen=True, slots=True, eq=False)
class PackedVolume:
    """Levels of one byte or two; the value of a voxel is `low + level * step`."""

    levels: NDArray[Any]
    """[X, Y, Z] in canonical order."""
    low: float = 0.0
    step: float = 1.0

    def content(self) -> bytes:
        """The bytes, x fastest and little-endian."""
        turned = np.ascontiguousarray(self.levels.transpose(2, 1, 0))
        return turned.astype(turned.dtype.newbyteorder("<"), copy=False).tobytes()

    def describe(self) -> dict[str, Any]:
        """What a page has to know to read the bytes."""
        bits = self.levels.dtype.itemsize * 8
        return {"bits": bits, "low": self.low, "step": self.step}


@dataclass(frozen=True, slots=True, eq=False)
class PackedCase:
    """The volumes of one case, all on one grid."""

    shape: tuple[int, int, int]
    spacing_mm: Spacing
    oriented: bool
    """Whether the file says how the patient lies, so that left and right can be named."""
    volumes: Mapping[str, PackedVolume]
    """`image0`, `image1`, ... by channel, `truth`, `prediction`, and maps by name."""
    window: tuple[float, float]
    classes: tuple[tuple[int, str], ...]
    """Value and name of each class; its number in the label volumes is its place, from 1."""
    ignored: int = 0
    """Number of the class that stands for what nobody has drawn; 0 if there is none."""
    factor: tuple[int, int, int] = (1, 1, 1)
    """Voxels of the scan along each axis that became one."""
    problems: tuple[str, ...] = ()

    def describe(self) -> dict[str, Any]:
        """All but the voxels, for a page."""
        return {
            "shape": list(self.shape),
            "spacing": list(self.spacing_mm),
            "oriented": self.oriented,
            "window": list(self.window),
            "classes": [{"value": value, "name": name} for value, name in self.classes],
            "ignored": self.ignored,
            "factor": list(self.factor),
            "problems": list(self.problems),
            "volumes": {name: volume.describe() for name, volume in self.volumes.items()},
        }

    def smaller(self) -> "PackedCase":
        """Half as many voxels along each axis that is not much coarser than the finest one."""
        finest = min(s for s, n in zip(self.spacing_mm, self.shape, strict=True) if n > 1)
        f = [
            2 if n > 1 and s < 1.5 * finest else 1
            for s, n in zip(self.spacing_mm, self.shape, strict=True)
        ]
        volumes = {
            name: PackedVolume(_reduced(volume.levels, f, name), volume.low, volume.step)
            for name, volume in self.volumes.items()
        }
        x, y, z = next(iter(volumes.values())).levels.shape
        right, front, up = (s * k for s, k in zip(self.spacing_mm, f, strict=True))
        a, b, c = (old * k for old, k in zip(self.factor, f, strict=True))
        spacing_mm, factor = (right, front, up), (a, b, c)
        return replace(self, shape=(x, y, z), spacing_mm=spacing_mm, volumes=volumes, factor=factor)


def pack_case(case: ViewCase, view: ViewSet) -> PackedCase:
    """Read the files of a case. What does not fit to the scan is left out, and said.

    Args:
        case: what to read; a scan that cannot be read is an error.
        view: the set that it is of, which names the classes.
    """
    scan = read_images(case.images)
    problems: list[str] = []
    found: dict[str, NDArray[Any]] = {}
    for name, path in (("truth", case.truth), ("prediction", case.prediction)):
        if path is not None:
            with collected(problems):
                found[name] = _label_on(scan, path)
    classes = _classes(view.labels, view.ignore_label, found.values())
    volumes = {f"image{k}": pack_image(channel) for k, channel in enumerate(scan.array)}
    volumes |= {name: _pack_label(label, classes) for name, label in found.items()}
    for name, path in case.maps.items():
        with collected(problems):
            top = math.log(len(classes) + 1) if name == "entropy" else 1.0
            volumes[name] = _pack_map(_map_on(scan, path), top)
    x, y, z = scan.array.shape[1:]
    return PackedCase(
        (x, y, z),
        scan.spacing_mm,
        scan.has_geometry,
        volumes,
        view.window or default_window(scan.array[0]),
        classes,
        next((k for k, (value, _) in enumerate(classes, 1) if value == view.ignore_label), 0),
        problems=tuple(problems),
    )


def pack_image(channel: NDArray[np.float32]) -> PackedVolume:
    """Levels of a channel: whole numbers exactly where they fit, others to a step nobody sees.

    The step is a part of the range in which most intensities lie, so that a few bright voxels do
    not make the rest coarse.
    """
    low, high = float(channel.min()), float(channel.max())
    if low == high:
        return PackedVolume(np.zeros(channel.shape, np.uint8), low, 1.0)
    whole = bool((channel == np.rint(channel)).all()) and high - low <= 65535
    usual = np.percentile(channel[:: _stride(channel)], USUAL)
    step = 1.0 if whole else max(float(usual[1] - usual[0]) / SHOWN_LEVELS, (high - low) / 65535)
    levels = np.rint((channel - low) / step)
    kind = np.uint8 if levels.max() <= 255 else np.uint16
    return PackedVolume(levels.clip(0, 65535).astype(kind), low, step)


def default_window(channel: NDArray[np.float32]) -> tuple[float, float]:
    """The usual intensities of what is not the scan's background, its most frequent darkest one."""
    seen = channel[:: _stride(channel)]
    body = seen[seen > seen.min()]
    low, high = (float(v) for v in np.percentile(body if body.size else seen, USUAL))
    return (low, high) if high > low else (low, low + 1.0)


def _stride(array: NDArray[Any]) -> int:
    """Every how manyth plane to take: a few million voxels are enough for a percentile."""
    return max(1, min(array.size // 4_000_000, len(array) // 8))


def _label_on(scan: Scan, path: Path) -> NDArray[Any]:
    return on_grid_of(scan.header, read_label(path)).array


def _map_on(scan: Scan, path: Path) -> NDArray[np.float32]:
    found = read_image(path)
    check_same_grid(scan.header, found.header)
    if len(found.array) != 1:
        raise UserError(f"{path} has {len(found.array)} values a voxel; a map has one")
    values: NDArray[np.float32] = found.array[0]
    return values


def _classes(
    labels: Mapping[int, str], ignore: int | None, found: Iterable[NDArray[Any]]
) -> tuple[tuple[int, str], ...]:
    """All named classes, then values that have no name."""
    values = {int(v) for label in found for v in np.unique(label)} - {0} - labels.keys()
    others = [(v, "not drawn" if v == ignore else f"label {v}") for v in sorted(values)]
    classes = (*sorted(labels.items()), *others)
    if len(classes) > 255:
        raise UserError(f"{len(classes)} classes are more than the 255 that can be shown")
    return classes


def _pack_label(label: NDArray[Any], classes: Sequence[tuple[int, str]]) -> PackedVolume:
    numbers = np.zeros(label.shape, np.uint8)
    for number, (value, _) in enumerate(classes, start=1):
        numbers[label == value] = number
    return PackedVolume(numbers)


def _pack_map(values: NDArray[np.float32], top: float) -> PackedVolume:
    """The scale ends at the largest value that there can be, so that cases can be compared."""
    step = max(top, float(values.max())) / 255
    return PackedVolume(np.rint(values / step).clip(0, 255).astype(np.uint8), 0.0, step)


def _reduced(levels: NDArray[Any], factor: Sequence[int], name: str) -> NDArray[Any]:
    """Means of blocks; of labels the voxel in the block's middle, since numbers have no mean."""
    if name in {"truth", "prediction"}:
        picked = [
            np.minimum(np.arange(0, n, k) + k // 2, n - 1)
            for n, k in zip(levels.shape, factor, strict=True)
        ]
        found: NDArray[Any] = levels[np.ix_(*picked)]
        return found
    room = [(0, -n % k) for n, k in zip(levels.shape, factor, strict=True)]
    padded = np.pad(levels, room, mode="edge")
    sizes = [part for n, k in zip(padded.shape, factor, strict=True) for part in (n // k, k)]
    means = padded.reshape(sizes).mean(axis=(1, 3, 5), dtype=np.float32)
    rounded: NDArray[Any] = np.rint(means).astype(levels.dtype)
    return rounded


def compressed(volume: PackedVolume) -> bytes:
    """What a page embeds; the same bytes for the same volume."""
    return gzip.compress(volume.content(), compresslevel=6, mtime=0)
