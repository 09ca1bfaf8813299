"""How many windows a scan is covered with: our overlap against the papers' strides."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean

import numpy as np
import torch
from torch import Tensor

from benchmarks.material import draw_organ, draw_scan, untrained
from benchmarks.row import Row, faster
from benchmarks.timing import best_of, seconds
from tracoco.config import InferenceConfig
from tracoco.evaluation.metrics import dice
from tracoco.geometry import Index
from tracoco.inference.fast_network import ready_to_predict
from tracoco.inference.sliding_window import predict_volume, window_places
from tracoco.losses.supervised import supervised_loss
from tracoco.methods.method import Method

STEPS = 400
"""Of the short training: enough to find a bright organ, whatever is around it."""


@dataclass(frozen=True, slots=True)
class Cover:
    """Scans of the mean size of a data set, and the paper's windows and strides for them."""

    title: str
    scan: Index
    window: Index
    stride: Index


LEFT_ATRIUM = Cover("Left Atrium", (194, 142, 88), (112, 112, 80), (18, 18, 4))
PANCREAS = Cover("Pancreas", (184, 168, 244), (96, 96, 96), (16, 16, 16))
SMALL = (
    Cover("Left Atrium", (83, 61, 35), (48, 48, 32), (8, 8, 2)),
    Cover("Pancreas", (74, 68, 98), (40, 40, 40), (7, 7, 7)),
)
"""Both at a size that a CPU can train on."""


def rows(_work: Path) -> list[Row]:
    """Time for scans of two sizes, and what becomes of the Dice."""
    return [
        _fewer_windows(LEFT_ATRIUM, bound=4),
        _fewer_windows(PANCREAS, bound=8),
        _same_dice(),
    ]


def _fewer_windows(cover: Cover, bound: float) -> Row:
    """The paper's strides are timed once: they are many windows, and ours have warmed all up."""
    method = untrained("light-unet", 8, cover.window)
    image, _ = _drawn(cover, seed=100)
    (ours,) = best_of(2, partial(_labels, method, image, cover, InferenceConfig()))
    papers = seconds(partial(_labels, method, image, cover, _papers(cover)))
    counts = [len(window_places(cover.scan, cover.window, each)) for each in _both(cover)]
    return faster(
        f"default overlap, a scan of {cover.title}'s size",
        f"the paper's strides, {' x '.join(map(str, cover.stride))}",
        (ours, papers),
        bound,
        f"{counts[0]} and {counts[1]} windows of a narrow light UNet.",
    )


def _same_dice() -> Row:
    """How far the two ways of covering a scan are apart; the worse of the two data sets."""
    scores = {cover.title: _dice_of_both(cover, _trained(cover)) for cover in SMALL}
    title, (ours, papers) = max(scores.items(), key=lambda item: abs(item[1][0] - item[1][1]))
    told = "; ".join(f"{name}: {a:.2f} and {b:.2f} %" for name, (a, b) in scores.items())
    return Row(
        f"default overlap: Dice, the worse of two sizes ({title})",
        "the paper's strides, scaled to the crop",
        ours,
        papers,
        "%",
        abs(ours - papers),
        "at most",
        0.1,
        f"Mean of three drawn scans. {told}. A light UNet after {STEPS} steps. It normalises each "
        "crop by itself, so that what it says of a voxel depends on the window; the paper's "
        "strides ask several times as often, and the mean of the answers is better.",
    )


def _dice_of_both(cover: Cover, method: Method) -> tuple[float, float]:
    """Mean Dice in percent with our overlap and with the paper's strides."""
    means = []
    for config in _both(cover):
        scores = []
        for seed in (101, 102, 103):
            image, truth = _drawn(cover, seed)
            found = _labels(method, image, cover, config)
            scores.append(100 * (dice(found.numpy() == 1, truth.numpy() == 1) or 0.0))
        means.append(fmean(scores))
    return means[0], means[1]


def _papers(cover: Cover) -> InferenceConfig:
    return InferenceConfig(stride=cover.stride, weights="uniform")


def _both(cover: Cover) -> tuple[InferenceConfig, InferenceConfig]:
    return InferenceConfig(), _papers(cover)


def _labels(method: Method, image: Tensor, cover: Cover, config: InferenceConfig) -> Tensor:
    with ready_to_predict(method) as ready:
        answer = predict_volume(ready.predict, image, cover.window, config)
    return answer.max(dim=0).indices


def _trained(cover: Cover) -> Method:
    """A light network after a short training on scans with a bright organ."""
    method = untrained("light-unet", 8, cover.window)
    network = method.inference_network().train()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / STEPS)
    scans, random = [_drawn(cover, seed) for seed in range(8)], np.random.default_rng(0)
    for _ in range(STEPS):
        crops = [_crop(cover, *scans[random.integers(len(scans))], random) for _ in range(2)]
        labels = torch.stack([label for _, label in crops])
        logits = network(torch.stack([image for image, _ in crops]))
        loss = supervised_loss(logits, labels, torch.ones_like(labels) > 0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return method


def _crop(
    cover: Cover, image: Tensor, truth: Tensor, random: np.random.Generator
) -> tuple[Tensor, Tensor]:
    starts = [random.integers(n - w + 1) for n, w in zip(cover.scan, cover.window, strict=True)]
    place = tuple(slice(s, s + w) for s, w in zip(starts, cover.window, strict=True))
    return image[:, *place], truth[*place]


def _drawn(cover: Cover, seed: int) -> tuple[Tensor, Tensor]:
    """A scan [1, ...] from 0 to 1 and its labels."""
    organ = draw_organ(cover.scan, seed, size=0.2)
    image = (draw_scan(cover.scan, seed) + 60 * organ).clip(0, 255) / 255
    return torch.from_numpy(image).float()[None], torch.from_numpy(organ.astype(np.int64))
