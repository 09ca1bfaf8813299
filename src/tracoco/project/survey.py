"""A first look at one case: its header, where it has content, its intensities, its label values."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracoco.digest import digest
from tracoco.errors import UserError, collected
from tracoco.geometry import Box, whole
from tracoco.project.cases import Case
from tracoco.scans.reader import read_grid, read_grids, read_images, read_label
from tracoco.scans.scan import SAME_GRID, Scan, ScanHeader, Shape, Spacing, voxels_apart


def content_box(array: NDArray[Any]) -> Box:
    """The smallest box around all voxels of [C, X, Y, Z] that differ from the first one.

    A voxel differs if any of its channels does. A constant image has no content and stays whole.
    """
    x, y, z = array.shape[1:]
    along_x = np.zeros(x, dtype=bool)
    across = np.zeros((y, z), dtype=bool)
    # Plane by plane: a mask of a large scan would take a quarter of the scan's memory.
    for channel in array:
        first = channel[0, 0, 0]
        for index, plane in enumerate(channel):
            differs = plane != first
            along_x[index] |= differs.any()
            across |= differs
    if not along_x.any():
        return whole((x, y, z))
    places = [np.flatnonzero(line) for line in (along_x, across.any(axis=1), across.any(axis=0))]
    return Box(
        tuple(int(place[0]) for place in places),
        tuple(int(place[-1] - place[0]) + 1 for place in places),
    )


PERCENTILES = (0.5, 5.0, 50.0, 95.0, 99.5)
MOST_SAMPLED = 100_000
"""Voxels a channel that stand for all: percentiles hardly change with more."""


@dataclass(frozen=True, slots=True)
class Intensities:
    """One channel of one scan."""

    lowest: float
    highest: float
    mean: float
    percentiles: tuple[float, ...]
    """0.5, 5, 50, 95 and 99.5 percent, of a sample."""
    integers: bool
    """Whether a sample has nothing but whole numbers."""


@dataclass(frozen=True, slots=True)
class Foreground:
    """One channel inside the structures of all labelled scans."""

    low: float
    """0.5 percent lie below."""
    high: float
    """0.5 percent lie above."""
    mean: float
    sd: float


def measure(channel: NDArray[np.float32], id_: str) -> Intensities:
    """Describe a channel; the sample depends on the case's id alone."""
    values = channel.ravel()
    if values.size > MOST_SAMPLED:
        values = values[_generator(id_).integers(0, values.size, MOST_SAMPLED)]
    return Intensities(
        lowest=_short(channel.min()),
        highest=_short(channel.max()),
        mean=_short(channel.mean(dtype=np.float64)),
        percentiles=tuple(map(_short, np.percentile(values, PERCENTILES))),
        integers=bool((values == np.rint(values)).all()),
    )


def sample_foreground(
    image: NDArray[np.float32], label: NDArray[np.integer], id_: str, most: int
) -> NDArray[np.float32]:
    """Intensities [C, N] of at most so many voxels of structures, always the same for a case."""
    places = np.flatnonzero(label)
    if len(places) > most:
        places = _generator(id_).choice(places, most, replace=False)
    return image.reshape(len(image), -1)[:, places]


def describe_foreground(samples: NDArray[np.float32]) -> tuple[Foreground, ...]:
    """Describe each channel of samples [C, N] of all labelled scans; none without any voxel."""
    return tuple(_described(values) for values in samples) if samples.size else ()


def _described(values: NDArray[np.float32]) -> Foreground:
    low, high = np.percentile(values, (PERCENTILES[0], PERCENTILES[-1]))
    mean, sd = values.mean(dtype=np.float64), values.std(dtype=np.float64)
    return Foreground(_short(low), _short(high), _short(mean), _short(sd))


def _generator(id_: str) -> np.random.Generator:
    return np.random.default_rng(int(digest(id_)[:16], 16))


def _short(value: float) -> float:
    """Six digits: more would be noise in a file for a reader."""
    return float(f"{value:.6g}")


MOST_VALUES = 256
"""A class index is a byte in the store."""


@dataclass(frozen=True, slots=True)
class CaseStatistics:
    """An image as its file describes it, axes in canonical order."""

    id: str
    shape: Shape
    spacing_mm: Spacing
    channels: int
    has_geometry: bool = True
    """Whether the file states its spacing; if not, 1 mm is assumed."""
    intensities: tuple[Intensities, ...] = ()
    """One a channel."""
    content_shape: Shape | None = None
    """Without the margin in which nothing changes; None where only the header is known."""


@dataclass(frozen=True, slots=True)
class LookTask:
    """A case to look at; its label is opened only if it has one."""

    case: Case
    foreground: int
    """How many foreground voxels to bring back."""


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """What was seen; without facts, the image could not be read."""

    facts: CaseStatistics | None = None
    label_voxels: dict[int, int] = field(default_factory=dict)
    """Voxels of each value of the label."""
    foreground: NDArray[np.float32] | None = None
    """Intensities [C, N] of some voxels of structures."""
    problems: tuple[str, ...] = ()


def look_at(task: LookTask) -> Look:
    """Read an image and its label, one case in memory; problems are noted, not raised."""
    problems: list[str] = []
    case, header, scan, facts = task.case, None, None, None
    with collected(problems):
        header = read_grids(case.images)
        facts = _facts(case.id, header)  # with the header alone, channels can be compared
        scan = read_images(case.images)
        facts = _facts(case.id, header, scan)
    values: dict[int, int] = {}
    foreground = None
    if case.label:
        with collected(problems):
            label = _checked_label(case.label, header)
            values = _value_counts(label, case.label)
            if scan and task.foreground:
                foreground = sample_foreground(scan.array, label, case.id, task.foreground)
    return Look(facts, values, foreground, tuple(problems))


def lost_look(task: LookTask, how: str) -> Look:
    """For a case whose process ended while it was looked at."""
    return Look(problems=(death_of(task.case, how),))


def death_of(case: Case, how: str) -> str:
    """What is told of a case whose process ended."""
    return f"case '{case.id}': the process that read {case.images[0]} {how}"


def check_geometry(image: ScanHeader, label: ScanHeader) -> None:
    """Refuse a label that does not lie on the voxels of its image."""
    if image.shape != label.shape:
        raise UserError(
            f"{label.source} has the shape {label.shape}, its image {image.source} "
            f"{image.shape}; resample the label to the grid of the image"
        )
    apart = voxels_apart(image.affine, label.affine, image.shape)
    if apart > SAME_GRID:
        raise UserError(
            f"{label.source} lies up to {apart:.3g} voxels away from its image {image.source}, "
            "by the affines of both; resample the label, or copy the affine if only that is wrong"
        )


def _facts(id_: str, header: ScanHeader, scan: Scan | None = None) -> CaseStatistics:
    facts = CaseStatistics(
        id_, header.shape, header.spacing_mm, header.channels, header.has_geometry
    )
    if scan is None:
        return facts
    intensities = tuple(measure(channel, id_) for channel in scan.array)
    x, y, z = content_box(scan.array).size
    return replace(facts, intensities=intensities, content_shape=(x, y, z))


def _checked_label(path: Path, image: ScanHeader | None) -> NDArray[np.integer[Any]]:
    if image:
        check_geometry(image, read_grid(path))
    return read_label(path).array


def _value_counts(label: NDArray[np.integer[Any]], path: Path) -> dict[int, int]:
    values, counts = np.unique(label, return_counts=True)
    if values[0] < 0 or len(values) > MOST_VALUES:
        raise UserError(
            f"{path} is not a label map: it has {len(values)} values from {values[0]} to "
            f"{values[-1]}; at most {MOST_VALUES} from 0 on are allowed. Check that it is no image"
        )
    return dict(zip(values.tolist(), counts.tolist(), strict=True))
