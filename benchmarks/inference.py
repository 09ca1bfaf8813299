"""Sliding windows: against MONAI's in time and memory, and our overlap against the papers'."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from monai.inferers.utils import sliding_window_inference
from torch import Tensor, nn

from benchmarks.material import draw_organ, draw_scan, plain_plan
from benchmarks.memory import in_tidy_process, watched_memory
from benchmarks.row import Row, faster, part
from benchmarks.timing import best_of, seconds
from tracoco.config import Config, InferenceConfig, MethodChoice, NetworkConfig
from tracoco.evaluation.metrics import dice
from tracoco.geometry import Index
from tracoco.inference.fast_network import ready_to_predict
from tracoco.inference.predictor import Predictor
from tracoco.inference.sliding_window import predict_volume, window_places
from tracoco.losses.supervised import supervised_loss
from tracoco.methods.method import Method, evaluating
from tracoco.project.plan import Plan
from tracoco.training.build import run_method

WINDOW: Index = (112, 112, 80)
SCAN: Index = (168, 168, 80)
"""Four windows that overlap by half, at the same places for MONAI and for us."""
LARGE: Index = (512, 512, 300)
CLASSES = 14
STEPS = 150
"""Of the short training: enough to find a bright organ, whatever is around it."""


@dataclass(frozen=True, slots=True)
class Cover:
    """Scans of the mean size of a data set and the paper's windows for them."""

    title: str
    scan: Index
    window: Index
    stride: Index
    bound: float

    @property
    def halved(self) -> "Cover":
        """The same at half the resolution, which is what a CPU can train on."""
        scan, window, stride = (
            tuple(n // 2 for n in index) for index in (self.scan, self.window, self.stride)
        )
        return replace(self, scan=scan, window=window, stride=stride)


COVERS = (
    Cover("Left Atrium", (194, 142, 88), (112, 112, 80), (18, 18, 4), bound=4.0),
    Cover("Pancreas", (184, 168, 244), (96, 96, 96), (16, 16, 16), bound=8.0),
)


def rows(_work: Path) -> list[Row]:
    """All of them; nothing is written."""
    return [
        *_same_windows(),
        *[row for cover in COVERS for row in _fewer_windows(cover)],
        _memory(),
    ]


def _same_windows() -> list[Row]:
    volume = torch.from_numpy(draw_scan(SCAN, 0)).float()[None] / 255
    method, config = _undecided(_method("vnet", 16, WINDOW), volume), InferenceConfig()
    found: dict[str, Tensor] = {}

    def ours() -> None:
        with ready_to_predict(method) as ready:
            found["ours"] = predict_volume(ready.predict, volume, WINDOW, config)

    def theirs() -> None:
        with evaluating(method):
            found["theirs"] = _monai(method.predict, volume, WINDOW, config)[0]

    times = best_of(3, ours, theirs)
    labels = {name: answer.argmax(dim=0) for name, answer in found.items()}
    same = float((labels["ours"] == labels["theirs"]).double().mean())
    what, against = "VNet over a scan, 4 windows of 112 x 112 x 80", "MONAI, plain network"
    share = float(labels["theirs"].double().mean())
    detail = f"labels equal on {100 * same:.4f} % of voxels; class 1 is {100 * share:.0f} % of them"
    return [
        faster(what, against, (times[0], times[1]), 1.6, detail),
        Row("the same, voxels of equal label", against, same, 1.0, "", same, "at least", 0.9999),
    ]


def _fewer_windows(cover: Cover) -> list[Row]:
    """Time on scans of the full size, Dice on halved ones, both with one network.

    The paper's strides are timed once: they take many windows, and ours have warmed everything up.
    """
    method, small = _trained(cover.halved), cover.halved
    image, _ = _drawn(cover, seed=100)
    (ours,) = best_of(2, partial(_labels, method, image, cover, InferenceConfig()))
    papers = seconds(partial(_labels, method, image, cover, _papers(cover)))
    counts = [len(window_places(cover.scan, cover.window, each)) for each in _both(cover)]
    image, truth = _drawn(small, seed=101)
    scores = [
        100 * (dice(_labels(method, image, small, each).numpy() == 1, truth.numpy() == 1) or 0.0)
        for each in _both(small)
    ]
    what = f"default overlap, a scan of {cover.title}'s size"
    against = f"the paper's strides, {' x '.join(map(str, cover.stride))}"
    apart = abs(scores[0] - scores[1])
    halved = f"A VNet of 4 filters after {STEPS} steps; Dice on a scan of half the size."
    return [
        faster(what, against, (ours, papers), cover.bound, f"{counts[0]} and {counts[1]} windows."),
        Row(f"{what}: Dice", against, scores[0], scores[1], "%", apart, "at most", 0.1, halved),
    ]


def _papers(cover: Cover) -> InferenceConfig:
    return InferenceConfig(stride=cover.stride, weights="uniform")


def _both(cover: Cover) -> tuple[InferenceConfig, InferenceConfig]:
    return InferenceConfig(), _papers(cover)


def _labels(method: Method, image: Tensor, cover: Cover, config: InferenceConfig) -> Tensor:
    with ready_to_predict(method) as ready:
        answer = predict_volume(ready.predict, image, cover.window, config)
    return answer.max(dim=0).indices


def _memory() -> Row:
    ours, theirs = (in_tidy_process(peak_mb, name) for name in ("ours", "theirs"))
    what = f"peak memory, {' x '.join(map(str, LARGE))} voxels, {CLASSES} classes"
    detail = "a tiny network, windows of 96 x 96 x 96 side by side; the scan is counted in both"
    return part(what, "MONAI and argmax", (ours, theirs), "MB", 0.5, detail)


def peak_mb(name: str) -> float:
    """The most that this process holds while the scan is labelled by "ours" or "theirs"."""
    array = np.broadcast_to(np.linspace(0, 1, LARGE[2], dtype=np.float32), LARGE).copy()
    method, window, config = Tiny(), (96, 96, 96), InferenceConfig(overlap=0.0, batch=1)
    with watched_memory() as peak:
        if name == "ours":
            plan = _plan_of_many_classes(window)
            Predictor(method, plan, window, config, torch.device("cpu"))(array, (1, 1, 1))
        else:
            with evaluating(method):
                volume = torch.from_numpy(array)[None]
                _monai(method.predict, volume, window, config).argmax(dim=1).to(torch.uint8)
    return peak.mb


def _monai(
    predict: Callable[[Tensor], Tensor], volume: Tensor, window: Index, config: InferenceConfig
) -> Tensor:
    """As MONAI's documentation has it, with our overlap, weights and windows at once."""
    answer = sliding_window_inference(
        volume[None], window, config.batch, predict, overlap=config.overlap, mode=config.weights
    )
    assert isinstance(answer, Tensor)  # noqa: S101 - of one network that gives one tensor
    return answer


class Tiny(Method):
    """One convolution; what it says does not matter."""

    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Conv3d(1, CLASSES, kernel_size=1)

    def forward(self, batch: object, step: int) -> dict[str, Tensor]:
        """Not trained."""
        raise NotImplementedError

    def inference_network(self) -> nn.Module:
        """The convolution."""
        return self.network

    def trained_networks(self) -> list[nn.Module]:
        """None."""
        return []


def _method(network: str, filters: int, crop: Index) -> Method:
    """A network whose batch normalisation has seen some crops."""
    torch.manual_seed(0)
    config = Config(
        method=MethodChoice(name="supervised"), network=NetworkConfig(name=network, filters=filters)
    )
    method = run_method(config, plain_plan(crop))
    with torch.no_grad():
        for _ in range(3):
            method.inference_network()(torch.rand(2, 1, 32, 32, 32))
    return method


def _undecided(method: Method, volume: Tensor) -> Method:
    """Shift the last bias so that either class gets half of the voxels: equal labels mean a lot."""
    with evaluating(method):
        logits = method.inference_network()(volume[None, :, : WINDOW[0], : WINDOW[1], : WINDOW[2]])
        difference = (logits[:, 1] - logits[:, 0]).median()
        *_, bias = method.inference_network().parameters()
        bias[1] -= difference
    return method


def _trained(cover: Cover) -> Method:
    """A narrow network of the paper's kind after a short training on scans with a bright organ."""
    method = _method("vnet", 4, cover.window)
    network = method.inference_network().train()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)
    scans, random = [_drawn(cover, seed) for seed in range(3)], np.random.default_rng(0)
    for step in range(STEPS):
        image, truth = scans[step % len(scans)]
        starts = [random.integers(n - w + 1) for n, w in zip(cover.scan, cover.window, strict=True)]
        place = tuple(slice(s, s + w) for s, w in zip(starts, cover.window, strict=True))
        labels = truth[None, *place]
        loss = supervised_loss(network(image[None, :, *place]), labels, torch.ones_like(labels) > 0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return method


def _drawn(cover: Cover, seed: int) -> tuple[Tensor, Tensor]:
    """A scan [1, ...] from 0 to 1 and its labels."""
    organ = draw_organ(cover.scan, seed, size=0.2)
    image = (draw_scan(cover.scan, seed) + 60 * organ).clip(0, 255) / 255
    return torch.from_numpy(image).float()[None], torch.from_numpy(organ.astype(np.int64))


def _plan_of_many_classes(window: Index) -> Plan:
    names = tuple(map(str, range(CLASSES)))
    return plain_plan(window).model_copy(
        update={"label_values": tuple(range(CLASSES)), "class_names": names}
    )
