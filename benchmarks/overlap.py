"""How many windows a scan is covered with: our overlap against the papers' strides."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean

import numpy as np
import torch
from torch import Tensor

from benchmarks.material import draw_scan, untrained
from benchmarks.row import Row, faster
from benchmarks.timing import best_of, seconds
from tracoco.config import InferenceConfig
from tracoco.demo.phantom import make_phantom
from tracoco.evaluation.metrics import dice
from tracoco.geometry import Size
from tracoco.inference.folding import ready_to_predict
from tracoco.inference.sliding_window import predict_volume
from tracoco.inference.windows import window_places
from tracoco.losses.supervised import supervised_loss
from tracoco.methods.method import Method

STEPS = 600
"""Of the short training."""


@dataclass(frozen=True, slots=True)
class Cover:
    """Scans of the mean size of a data set, and the paper's windows and strides for them."""

    title: str
    scan: Size
    window: Size
    stride: Size
    filters: int
    """Of the network: the default, or fewer where the paper's windows would take minutes."""


LEFT_ATRIUM = Cover("Left Atrium", (194, 142, 88), (112, 112, 80), (18, 18, 4), filters=16)
PANCREAS = Cover("Pancreas", (184, 168, 244), (96, 96, 96), (16, 16, 16), filters=4)
SCAN, WINDOW = (50, 50, 34), (32, 32, 24)
"""Of the demo's phantoms, in what all of them have, and of crops that a CPU can train on."""
SCALED = {"Left Atrium": (5, 5, 1), "Pancreas": (5, 5, 4)}
"""The paper's strides, as much shorter as the crops are."""
LEARNT, TESTED = range(24), range(100, 112)


def rows(_work: Path) -> list[Row]:
    """Time for scans of two sizes, and what becomes of the Dice."""
    return [
        _fewer_windows(LEFT_ATRIUM, bound=4),
        _fewer_windows(PANCREAS, bound=8),
        _same_dice(),
    ]


def _fewer_windows(cover: Cover, bound: float) -> Row:
    """The paper's strides are timed once: they are many windows, and ours have warmed all up."""
    method = untrained("light-unet", cover.filters, cover.window)
    image = torch.from_numpy(draw_scan(cover.scan, seed=100) / np.float32(255))[None]
    ways = InferenceConfig(), _uniform(cover.stride)
    fast, slow = (partial(_labels, method, image, cover.window, each) for each in ways)
    (ours,), papers = best_of(4, fast), seconds(slow)
    counts = [len(window_places(cover.scan, cover.window, each)) for each in ways]
    return faster(
        f"default overlap, a scan of {cover.title}'s size",
        f"the paper's strides, {' x '.join(map(str, cover.stride))}",
        (ours, papers),
        bound,
        f"{counts[0]} and {counts[1]} windows of a light UNet of {cover.filters} filters.",
    )


def _same_dice() -> Row:
    """How far the two ways of covering a scan are apart; the worse of the two strides."""
    method = _trained()
    ours = _mean_dice(method, InferenceConfig())
    papers = {name: _mean_dice(method, _uniform(stride)) for name, stride in SCALED.items()}
    title = max(papers, key=lambda name: abs(papers[name] - ours))
    told = ", ".join(f"{name}'s {score:.2f} %" for name, score in papers.items())
    denser = InferenceConfig(overlap=0.75)
    few, many = (len(window_places(SCAN, WINDOW, each)) for each in (InferenceConfig(), denser))
    return Row(
        f"default overlap: Dice, against the strides that differ more ({title}'s)",
        "the paper's strides, scaled to the crop",
        ours,
        papers[title],
        "%",
        abs(ours - papers[title]),
        "at most",
        0.1,
        f"Mean of {len(TESTED)} phantoms of the demo; with {told}. A light UNet of 8 filters after "
        f"{STEPS} steps on {len(LEARNT)} others. It was trained briefly, and what it says of a "
        "voxel depends on where the voxel lies in the window; the paper's strides ask several "
        "times as often, and take the mean. inference.overlap=0.75 "
        f"gives {_mean_dice(method, denser):.2f} %, with {many} windows in place of {few}.",
    )


def _mean_dice(method: Method, config: InferenceConfig) -> float:
    """In percent, over the phantoms that nothing was learnt from."""
    scores = []
    for index in TESTED:
        image, truth = _phantom(index)
        found = _labels(method, image, WINDOW, config)
        scores.append(100 * (dice(found.numpy() == 1, truth.numpy() == 1) or 0.0))
    return fmean(scores)


def _uniform(stride: Size) -> InferenceConfig:
    return InferenceConfig(stride=stride, weights="uniform")


def _labels(method: Method, image: Tensor, window: Size, config: InferenceConfig) -> Tensor:
    with ready_to_predict(method) as ready:
        prediction = predict_volume(ready.predict, image, window, config)
    return prediction.max(dim=0).indices


def _trained() -> Method:
    """A light network after a short training on the demo's phantoms."""
    method = untrained("light-unet", 8, WINDOW)
    network = method.inference_network().train()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / STEPS)
    scans, random = [_phantom(index) for index in LEARNT], np.random.default_rng(0)
    for _ in range(STEPS):
        crops = [_crop(*scans[random.integers(len(scans))], random) for _ in range(2)]
        labels = torch.stack([label for _, label in crops])
        logits = network(torch.stack([image for image, _ in crops]))
        loss = supervised_loss(logits, labels, torch.ones_like(labels) > 0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return method


def _crop(image: Tensor, truth: Tensor, random: np.random.Generator) -> tuple[Tensor, Tensor]:
    starts = [random.integers(n - w + 1) for n, w in zip(SCAN, WINDOW, strict=True)]
    place = tuple(slice(s, s + w) for s, w in zip(starts, WINDOW, strict=True))
    return image[:, *place], truth[*place]


def _phantom(index: int) -> tuple[Tensor, Tensor]:
    """The middle of a phantom [1, ...], from 0 to 1, and its labels."""
    phantom = make_phantom(0, index)
    starts = [(n - kept) // 2 for n, kept in zip(phantom.image.shape, SCAN, strict=True)]
    place = tuple(slice(s, s + kept) for s, kept in zip(starts, SCAN, strict=True))
    low, high = np.percentile(phantom.image, (0.5, 99.5))
    image = ((phantom.image[place] - low) / (high - low)).clip(0, 1).astype(np.float32)
    return torch.from_numpy(image)[None], torch.from_numpy(phantom.label[place].astype(np.int64))
