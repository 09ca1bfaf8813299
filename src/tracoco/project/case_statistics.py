"""What the voxels of a case tell: intensities, content, label values, samples of structures."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracoco.files import array_digest, digest
from tracoco.geometry import Box
from tracoco.project.labels import MOST_VALUES, no_label_map
from tracoco.scans.scan import LabelScan, Scan, ScanHeader, Shape, Spacing, Structure, content_box

PERCENTILES = (0.5, 5.0, 50.0, 95.0, 99.5)
FEWEST_GAPS = 3
"""Of a label that seems to be drawn on single slices."""
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
    structures_ml: float | None = None
    """Volume of all structures of the label together; None where the label was not opened."""


@dataclass(frozen=True, slots=True)
class ImageStatistics:
    """What the voxels of an image tell."""

    intensities: tuple[Intensities, ...]
    """One a channel."""
    constant: tuple[int, ...]
    """Channels that have one value everywhere."""
    content: Box
    """The part in which something changes."""
    digest: str
    """Equal for images whose voxels are the same, whatever file they are in."""


@dataclass(frozen=True, slots=True, eq=False)
class LabelStatistics:
    """What the voxels of a label tell."""

    header: ScanHeader
    voxels: Mapping[int, int]
    """How many voxels each value has; those that are not drawn have none."""
    touched: tuple[tuple[int, int], ...]
    """Faces of the scan that a structure touches: an axis, and 0 for its start or 1 for its end."""
    in_margin: int = 0
    """Labelled voxels outside of the image's content."""
    foreground: NDArray[np.float32] | None = None
    """Intensities [C, N] of some voxels of structures."""
    undrawn: int = 0
    """Voxels that are not drawn."""
    box: Box | None = None
    """The part of the scan that the file covers, if that is not all of it."""
    empty_slices: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Along each axis, the fraction without any structure of the slices between the first and the
    last that have one; 0 where fewer than three gaps lie between them."""
    structures: tuple[Structure, ...] = ()
    """Those that the file names."""


def image_statistics(array: NDArray[np.float32], id_: str) -> ImageStatistics:
    """Describe an image [C, X, Y, Z]; samples depend on the case's id alone."""
    constant = tuple(i for i, channel in enumerate(array) if channel.min() == channel.max())
    intensities = tuple(measure(channel, id_) for channel in array)
    return ImageStatistics(intensities, constant, content_box(array), array_digest(array))


def label_statistics(
    label: LabelScan, scan: Scan | None, image: ImageStatistics | None, foreground: int, id_: str
) -> LabelStatistics:
    """Describe a label that lies on the grid of its image; refuse what is no label map.

    Args:
        label: the label.
        scan: its image; None where the voxels of the image could not be read.
        image: what is known of that image.
        foreground: how many voxels of structures to sample from the image.
        id_: of the case, which the sample depends on.
    """
    counts = _value_counts(label)
    statistics = LabelStatistics(
        label.header,
        counts,
        _touched(label.array),
        undrawn=label.array.size - sum(counts.values()),
        box=label.box,
        structures=label.structures,
        empty_slices=_empty_slices(label.array),
    )
    if scan is None or image is None:
        return statistics
    structures = np.count_nonzero(label.array > 0)
    in_margin = int(structures - np.count_nonzero(label.array[image.content.slices] > 0))
    sample = sample_foreground(scan.array, label.array, id_, foreground) if foreground else None
    return replace(statistics, in_margin=in_margin, foreground=sample)


def measure(channel: NDArray[np.float32], id_: str) -> Intensities:
    """Describe a channel; the sample depends on the case's id alone."""
    values = channel.ravel()
    if values.size > MOST_SAMPLED:
        values = values[_generator(id_).integers(0, values.size, MOST_SAMPLED)]
    return Intensities(
        lowest=six_digits(channel.min()),
        highest=six_digits(channel.max()),
        mean=six_digits(channel.mean(dtype=np.float64)),
        percentiles=tuple(map(six_digits, np.percentile(values, PERCENTILES))),
        integers=bool((values == np.rint(values)).all()),
    )


def sample_foreground(
    image: NDArray[np.float32], label: NDArray[np.integer], id_: str, most: int
) -> NDArray[np.float32]:
    """Intensities [C, N] of at most so many voxels of structures, always the same for a case."""
    places = np.flatnonzero(label > 0)
    if len(places) > most:
        places = _generator(id_).choice(places, most, replace=False)
    return image.reshape(len(image), -1)[:, places]


def _value_counts(label: LabelScan) -> dict[int, int]:
    """Voxels of each value, a plane at a time: a large label is not sorted as a whole."""
    voxels: Counter[int] = Counter()
    for plane in label.array:
        values, counts = np.unique(plane[plane >= 0], return_counts=True)
        voxels.update(dict(zip(values.tolist(), counts.tolist(), strict=True)))
    if len(voxels) > MOST_VALUES:
        raise no_label_map(label, sorted(voxels))
    return dict(voxels)


def _empty_slices(label: NDArray[Any]) -> tuple[float, float, float]:
    here = label > 0
    fractions = []
    for axis in range(3):
        filled = np.flatnonzero(here.any(axis=tuple(other for other in range(3) if other != axis)))
        gaps = np.count_nonzero(np.diff(filled) > 1)
        span = int(filled[-1] - filled[0]) + 1 if len(filled) else 1
        fractions.append(1 - len(filled) / span if gaps >= FEWEST_GAPS else 0.0)
    first, second, third = fractions
    return (first, second, third)


def _touched(label: NDArray[Any]) -> tuple[tuple[int, int], ...]:
    return tuple(
        (axis, end) for axis in range(3) for end in (0, 1) if (label.take(-end, axis) > 0).any()
    )


def _generator(id_: str) -> np.random.Generator:
    return np.random.default_rng(int(digest(id_)[:16], 16))


def six_digits(value: float) -> float:
    """Six digits: more would be noise in a file for a reader."""
    return float(f"{value:.6g}")
