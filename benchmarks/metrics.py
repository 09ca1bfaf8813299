"""The surface metrics of one case, against medpy."""

from pathlib import Path

import numpy as np
from medpy.metric import binary

from benchmarks.agreement import check_close
from benchmarks.material import Mask, draw_organ
from benchmarks.row import Row, faster
from benchmarks.timing import best_of
from tracoco.evaluation.metrics import asd, assd, hd95, surface_distances

SHAPE = (200, 180, 88)
SPACING = (0.625, 0.625, 0.625)
"""Of the Left Atrium, in mm."""


def rows(work: Path) -> list[Row]:  # noqa: ARG001 - every group is called alike
    """One row; a mask of scattered voxels, which is all surface, is told beside it."""
    truth = draw_organ(SHAPE, seed=1)
    prediction = np.roll(draw_organ(SHAPE, seed=1, size=0.31), 2, axis=0)
    seconds = _compare(prediction, truth, rounds=3)
    random = np.random.default_rng(0)
    scattered = (random.random((2, *SHAPE)) < 0.05) & truth
    ours, theirs = _compare(scattered[0], scattered[1], rounds=2)
    return [
        faster(
            "HD95, ASD and ASSD of a case",
            "medpy.metric.binary hd95, asd and assd",
            seconds,
            6,
            f"A smooth organ in {' x '.join(map(str, SHAPE))} voxels and a prediction two voxels "
            f"off; the values are equal to 1e-5. Where both masks are scattered voxels inside the "
            f"organ: {ours:.2f} s against {theirs:.2f} s, {theirs / ours:.1f} times faster.",
        )
    ]


def our_metrics(prediction: Mask, truth: Mask) -> list[float]:
    """The three values from one pair of distance maps."""
    distances = surface_distances(prediction, truth, SPACING)
    return [hd95(distances), asd(distances), assd(distances)]


def medpy_metrics(prediction: Mask, truth: Mask) -> list[float]:
    """The three values, each from distance maps of its own."""
    metrics = (binary.hd95, binary.asd, binary.assd)
    return [float(metric(prediction, truth, SPACING)) for metric in metrics]


def _compare(prediction: Mask, truth: Mask, rounds: int) -> tuple[float, float]:
    ours, theirs = our_metrics(prediction, truth), medpy_metrics(prediction, truth)
    for name, own, other in zip(("hd95", "asd", "assd"), ours, theirs, strict=True):
        check_close(name, own, other, 1e-5)
    best = best_of(
        rounds,
        lambda: our_metrics(prediction, truth),
        lambda: medpy_metrics(prediction, truth),
    )
    return best[0], best[1]
