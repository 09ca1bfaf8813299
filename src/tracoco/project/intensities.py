"""What the intensities of a scan are like: enough to tell a CT, and to choose a window."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracoco.project.digest import digest

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
