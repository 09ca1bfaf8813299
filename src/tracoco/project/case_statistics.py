"""What the voxels of a case tell: intensities, content, label values, samples of structures."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracoco.errors import UserError
from tracoco.files import array_digest, digest
from tracoco.geometry import Box
from tracoco.scans.scan import LabelScan, Scan, ScanHeader, Shape, Spacing, content_box

MOST_VALUES = 256
"""A class index is a byte in the store."""
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
    """How many voxels each value has."""
    touched: tuple[tuple[int, int], ...]
    """Faces of the scan that a structure touches: an axis, and 0 for its start or 1 for its end."""
    in_margin: int = 0
    """Labelled voxels outside of the image's content."""
    foreground: NDArray[np.float32] | None = None
    """Intensities [C, N] of some voxels of structures."""


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
    statistics = LabelStatistics(label.header, _value_counts(label), _touched(label.array))
    if scan is None or image is None:
        return statistics
    structures = np.count_nonzero(label.array)
    in_margin = int(structures - np.count_nonzero(label.array[image.content.slices]))
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
    places = np.flatnonzero(label)
    if len(places) > most:
        places = _generator(id_).choice(places, most, replace=False)
    return image.reshape(len(image), -1)[:, places]


def _value_counts(label: LabelScan) -> dict[int, int]:
    """Voxels of each value, a plane at a time: a large label is not sorted as a whole."""
    voxels: Counter[int] = Counter()
    for plane in label.array:
        values, counts = np.unique(plane, return_counts=True)
        voxels.update(dict(zip(values.tolist(), counts.tolist(), strict=True)))
    low, high = min(voxels), max(voxels)
    if low < 0 or len(voxels) > MOST_VALUES:
        raise UserError(
            f"{label.source} is not a label map: it has {len(voxels)} values from {low} to "
            f"{high}; at most {MOST_VALUES} from 0 on are allowed. Check that it is no image"
        )
    return dict(voxels)


def _touched(label: NDArray[Any]) -> tuple[tuple[int, int], ...]:
    return tuple((axis, end) for axis in range(3) for end in (0, 1) if label.take(-end, axis).any())


def _generator(id_: str) -> np.random.Generator:
    return np.random.default_rng(int(digest(id_)[:16], 16))


def six_digits(value: float) -> float:
    """Six digits: more would be noise in a file for a reader."""
    return float(f"{value:.6g}")
