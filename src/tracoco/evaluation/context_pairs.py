"""A pair of crops of one scan: where they lie, what is answered in their overlap, how far apart."""

from dataclasses import dataclass
from statistics import fmean

import numpy as np
import torch
from numpy.random import Generator, Philox, SeedSequence
from numpy.typing import NDArray

from tracoco.data.crop import inside_volume, read_box
from tracoco.data.places import draw_second, start_ranges
from tracoco.evaluation.metrics import dice
from tracoco.geometry import Box, Index, overlap
from tracoco.inference.sliding_window import Predict

Volume = NDArray[np.float32]
Answer = NDArray[np.float64]

LEAST = 1e-7
"""Probabilities below this count as this: one hard answer that changes is not infinitely far."""


@dataclass(frozen=True, slots=True)
class PairScore:
    """Two answers about the same voxels. Shares are fractions."""

    disagreement: float | None
    """1 - Dice, mean over the foreground classes of either answer; undefined if there are none."""
    divergence: float
    """KL(first || second), mean over the voxels, Eq. (4); in nats."""
    differing: float
    """Share of the voxels that get another label."""


def draw_pair(scan: str, shape: Index, crop: Index, seed: int, index: int) -> tuple[Box, Box]:
    """The boxes of one pair: the first anywhere, the second as training draws it by default."""
    random = Generator(Philox(SeedSequence([seed, index, *scan.encode()])))
    ranges = start_ranges(shape, crop)
    first = Box(tuple(int(random.integers(low, high + 1)) for low, high in ranges), crop)
    return first, draw_second(first, ranges, random)


def answers(predict: Predict, volume: Volume, first: Box, second: Box) -> tuple[Answer, Answer]:
    """The probabilities [K, N] that two crops give the N voxels of the scan in both of them."""
    crops = torch.from_numpy(np.stack([read_box(volume, box) for box in (first, second)]))
    flat = first.size[0] == 1
    with torch.no_grad():
        found = predict(crops.squeeze(2) if flat else crops).double().cpu()
    here, there = overlap(first.start, second.start, first.size)
    inside = inside_volume(first, volume.shape[1:])[here.slices]  # padding is no part of a scan
    pair = (found.unsqueeze(2) if flat else found).numpy()
    return pair[0][:, *here.slices][:, inside], pair[1][:, *there.slices][:, inside]


def compare(first: Answer, second: Answer) -> PairScore:
    """Compare the probabilities [K, N] of the same voxels."""
    labels, other = first.argmax(axis=0), second.argmax(axis=0)
    overlaps = [dice(labels == k, other == k) for k in range(1, len(first))]
    present = [value for value in overlaps if value is not None]
    ratio = np.log(first.clip(min=LEAST)) - np.log(second.clip(min=LEAST))
    return PairScore(
        disagreement=1 - fmean(present) if present else None,
        divergence=float((first * ratio).sum(axis=0).mean()),
        differing=float((labels != other).mean()),
    )
