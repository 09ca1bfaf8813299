"""Sliding windows against MONAI's, in time and memory."""

from collections.abc import Callable
from math import inf
from pathlib import Path

import numpy as np
import torch
from monai.inferers.utils import sliding_window_inference
from numpy.typing import NDArray
from torch import Tensor, nn

from benchmarks.material import draw_scan, plain_plan, untrained
from benchmarks.memory import in_fresh_process, in_tidy_process, watched_memory
from benchmarks.row import Row, faster, part
from benchmarks.timing import best_of
from tracoco.config import InferenceConfig
from tracoco.geometry import Size
from tracoco.inference.folding import ready_to_predict
from tracoco.inference.predictor import Predictor
from tracoco.inference.sliding_window import predict_volume
from tracoco.methods.method import Method, StepOutput, evaluating
from tracoco.project.plan import Plan

WINDOW: Size = (112, 112, 80)
SCAN: Size = (168, 168, 80)
"""Four windows that overlap by half, at the same places for MONAI and for us."""
PROCESSES = 2
"""Of ours and of MONAI's, in turns."""
LARGE: Size = (512, 512, 300)
CLASSES = 14


def rows(_work: Path) -> list[Row]:
    """All of them; nothing is written."""
    return [
        *_same_windows(),
        _memory(),
    ]


def _same_windows() -> list[Row]:
    """Each in processes of its own, since ours changes how a process handles memory."""
    best, labels = dict[str, float](), dict[str, NDArray[np.uint8]]()
    for name in ("ours", "theirs") * PROCESSES:
        taken, labels[name] = in_fresh_process(timed_windows, name)
        best[name] = min(best.get(name, inf), taken)
    same = float((labels["ours"] == labels["theirs"]).mean())
    what, against = "VNet over a scan, 4 windows of 112 x 112 x 80", "MONAI, plain network"
    share = float(labels["theirs"].mean())
    detail = f"labels equal on {100 * same:.4f} % of voxels; class 1 is {100 * share:.0f} % of them"
    return [
        faster(what, against, (best["ours"], best["theirs"]), 1.6, detail),
        Row("the same, voxels of equal label", against, same, 1.0, "", same, "at least", 0.9999),
    ]


def timed_windows(name: str) -> tuple[float, NDArray[np.uint8]]:
    """Least seconds in which the scan goes through the network by "ours" or "theirs"; labels."""
    volume = torch.from_numpy(draw_scan(SCAN, 0)).float()[None] / 255
    method, config = _undecided(untrained("vnet", 16, WINDOW), volume), InferenceConfig()

    def ours() -> Tensor:
        with ready_to_predict(method) as ready:
            return predict_volume(ready.predict, volume, WINDOW, config)

    def theirs() -> Tensor:
        with evaluating(method):
            return _monai(method.predict, volume, WINDOW, config)[0]

    way = {"ours": ours, "theirs": theirs}[name]
    (taken,) = best_of(3, way)
    return taken, way().argmax(dim=0).to(torch.uint8).numpy()


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
    predict: Callable[[Tensor], Tensor], volume: Tensor, window: Size, config: InferenceConfig
) -> Tensor:
    """As MONAI's documentation has it, with our overlap, weights and windows at once."""
    prediction = sliding_window_inference(
        *(volume[None], window, config.batch, predict),
        overlap=config.overlap,
        mode=config.weights,
        sigma_scale=0.25,
    )
    assert isinstance(prediction, Tensor)  # noqa: S101 - of one network that gives one tensor
    return prediction


class Tiny(Method):
    """One convolution; what it says does not matter."""

    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Conv3d(1, CLASSES, kernel_size=1)

    def forward(self, batch: object, step: int) -> StepOutput:  # noqa: ARG002 - no training
        """Never called: nothing is trained here."""
        raise AssertionError("this network is not trained")

    def inference_network(self) -> nn.Module:
        """The convolution."""
        return self.network

    def trained_networks(self) -> list[nn.Module]:
        """None."""
        return []


def _undecided(method: Method, volume: Tensor) -> Method:
    """Shift the last bias so that either class gets half of the voxels: equal labels mean a lot."""
    with evaluating(method):
        logits = method.inference_network()(volume[None, :, : WINDOW[0], : WINDOW[1], : WINDOW[2]])
        difference = (logits[:, 1] - logits[:, 0]).median()
        *_, bias = method.inference_network().parameters()
        bias[1] -= difference
    return method


def _plan_of_many_classes(window: Size) -> Plan:
    names = tuple(map(str, range(CLASSES)))
    return plain_plan(window).model_copy(
        update={"label_values": tuple(range(CLASSES)), "class_names": names}
    )
