"""Context sensitivity: how much the prediction of a voxel depends on what surrounds the voxel.

Two crops of one scan, a little apart, share the voxels in their overlap, with other surroundings.
A network that has learnt the organ and not its surroundings predicts the same for both.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import torch
from numpy.random import Generator, Philox, SeedSequence
from numpy.typing import NDArray
from rich.console import Console
from torch import Tensor

from tracoco.console import counted
from tracoco.data.crop import draw_second, has_room, inside_volume, read_box, start_ranges
from tracoco.errors import raise_all
from tracoco.evaluation.metrics import dice
from tracoco.files import read_json, write_json
from tracoco.geometry import Box, Size, overlap
from tracoco.inference.manifest import PredictedCase
from tracoco.inference.predict import planned_predictions, unlike_scans
from tracoco.inference.predictor import Predictor
from tracoco.inference.sliding_window import Predict
from tracoco.methods.method import evaluating
from tracoco.project.preprocess import to_network_grid
from tracoco.runs.folder import Weights
from tracoco.scans.reader import read_images
from tracoco.settings import checked

Volume = NDArray[np.float32]
Prediction = NDArray[np.float64]

LEAST = 1e-7
"""Smaller probabilities count as this: a certain prediction that changes is not infinitely far."""


@dataclass(frozen=True, slots=True)
class PairScore:
    """Two predictions of the same voxels. Overlaps in percent, divergence in nats."""

    disagreement: float | None
    """100 - Dice, mean over the foreground classes of either; undefined if there are none."""
    divergence: float
    """KL(first || second), mean over the voxels, Eq. (4); in nats."""
    differing: float
    """Voxels that get another label, in percent."""


def draw_pair(scan: str, shape: Size, crop: Size, seed: int, index: int) -> tuple[Box, Box]:
    """The boxes of one pair: the first anywhere, the second as training draws it by default."""
    random = Generator(Philox(SeedSequence([seed, index, *scan.encode()])))
    ranges = start_ranges(shape, crop)
    first = Box(tuple(int(random.integers(low, high + 1)) for low, high in ranges), crop)
    return first, draw_second(first, ranges, random)


def predictions(
    predict: Predict, volume: Volume, first: Box, second: Box
) -> tuple[Prediction, Prediction]:
    """The probabilities [K, N] that two crops give the N voxels of the scan in both of them."""
    crops = torch.from_numpy(np.stack([read_box(volume, box) for box in (first, second)]))
    flat = first.size[0] == 1
    with torch.no_grad():
        found = predict(crops.squeeze(2) if flat else crops).double().cpu()
    here, there = overlap(first.start, second.start, first.size)
    valid = inside_volume(first, volume.shape[1:])[here.slices]  # padding is no part of a scan
    pair = (found.unsqueeze(2) if flat else found).numpy()
    return pair[0][:, *here.slices][:, valid], pair[1][:, *there.slices][:, valid]


def compare(first: Prediction, second: Prediction) -> PairScore:
    """Compare the probabilities [K, N] of the same voxels."""
    labels, other = first.argmax(axis=0), second.argmax(axis=0)
    overlaps = [dice(labels == k, other == k) for k in range(1, len(first))]
    present = [value for value in overlaps if value is not None]
    ratio = np.log(first.clip(min=LEAST)) - np.log(second.clip(min=LEAST))
    return PairScore(
        disagreement=100 * (1 - fmean(present)) if present else None,
        divergence=float((first * ratio).sum(axis=0).mean()),
        differing=100 * float((labels != other).mean()),
    )


@dataclass(frozen=True, slots=True)
class ContextScore:
    """Means over the pairs of one scan, in the units of `PairScore`; None is undefined.

    A scan that is no larger than the crop has no second place to crop at: 0 pairs, and no means.
    """

    scan: str
    pairs: int
    empty_pairs: int
    """Pairs in which neither prediction has foreground, and whose disagreement is undefined."""
    disagreement: float | None = None
    divergence: float | None = None
    differing: float | None = None


@dataclass(frozen=True, slots=True)
class ContextSummary:
    """Means over scans and their standard deviations (n - 1), in the units of `PairScore`."""

    scans: int
    scans_without_room: int
    pairs: int
    empty_pairs: int
    disagreement: float | None
    disagreement_sd: float | None
    divergence: float | None
    divergence_sd: float | None
    differing: float | None
    differing_sd: float | None


def context_sensitivity(
    predict: Predict, volumes: Mapping[str, Volume], crop: Size, *, shifts: int, seed: int = 0
) -> list[ContextScore]:
    """Score each volume; its crops depend on its name and the seed, not on the other volumes.

    Args:
        predict: any function from crops to probabilities, e.g. `Method.predict`; crops one slice
            thick reach it as 2D crops.
        volumes: scans as prepared for the network, [C, X, Y, Z] by name.
        crop: size of a crop, usually that of the training.
        shifts: pairs of crops of each volume.
        seed: another seed draws other pairs.
    """
    return [
        score_volume(predict, name, volume, crop, shifts=shifts, seed=seed)
        for name, volume in volumes.items()
    ]


def score_volume(
    predict: Predict, scan: str, volume: Volume, crop: Size, *, shifts: int, seed: int = 0
) -> ContextScore:
    """Draw pairs of crops of one volume, predict them, and compare them in their overlaps."""
    if not has_room(volume.shape[1:], crop):
        return ContextScore(scan, pairs=0, empty_pairs=0)
    pairs = [draw_pair(scan, volume.shape[1:], crop, seed, index) for index in range(shifts)]
    scores = [compare(*predictions(predict, volume, *pair)) for pair in pairs]
    defined = [score.disagreement for score in scores if score.disagreement is not None]
    return ContextScore(
        scan,
        pairs=len(scores),
        empty_pairs=len(scores) - len(defined),
        disagreement=fmean(defined) if defined else None,
        divergence=fmean(score.divergence for score in scores),
        differing=fmean(score.differing for score in scores),
    )


def summarise_context(scores: Sequence[ContextScore]) -> ContextSummary:
    """One row for all scans; a scan counts once, however many pairs it has."""
    return ContextSummary(
        scans=len(scores),
        scans_without_room=sum(score.pairs == 0 for score in scores),
        pairs=sum(score.pairs for score in scores),
        empty_pairs=sum(score.empty_pairs for score in scores),
        **_mean_and_spread(scores, "disagreement"),
        **_mean_and_spread(scores, "divergence"),
        **_mean_and_spread(scores, "differing"),
    )


def _mean_and_spread(scores: Sequence[ContextScore], measure: str) -> dict[str, float | None]:
    values = [value for score in scores if (value := getattr(score, measure)) is not None]
    return {
        measure: fmean(values) if values else None,
        f"{measure}_sd": stdev(values) if len(values) > 1 else None,
    }


@dataclass(frozen=True, slots=True)
class ContextSensitivity:
    """What was measured of a run, and on what: the content of `context.json`."""

    source: str
    checkpoint: str
    crop: tuple[int, ...]
    shifts: int
    seed: int
    rows: tuple[ContextScore, ...]
    averaged: bool = False
    """Whether the weights were the averaged ones of the run."""
    watermark: str = ""
    """What must be said of the checkpoint; mostly nothing."""

    @property
    def summary(self) -> ContextSummary:
        """One row for all scans."""
        return summarise_context(self.rows)

    def to_json(self) -> dict[str, Any]:
        """The content of `context.json`."""
        return {
            "source": self.source,
            "checkpoint": self.checkpoint,
            "averaged": self.averaged,
            "watermark": self.watermark,
            "crop": list(self.crop),
            "shifts": self.shifts,
            "seed": self.seed,
            "summary": asdict(self.summary),
            "rows": [asdict(row) for row in self.rows],
        }


@dataclass(frozen=True, slots=True)
class ContextChoice:
    """How pairs of crops are drawn: so many of each scan, all of them from a seed."""

    shifts: int = 20
    seed: int = 0


def measure_context(  # noqa: PLR0913 - each is a choice of the user's, with a default
    run: Path,
    source: Path,
    choice: ContextChoice | None = None,
    *,
    checkpoint: str = "last",
    weights: Weights = "averaged",
    device: str = "auto",
    console: Console | None = None,
) -> ContextSensitivity:
    """Measure a run and write RUN/context.json, which its report shows.

    Args:
        run: the run's folder.
        source: a scan, a folder of scans, or a project, which stands for its test cases.
        choice: how many pairs, and the seed that draws them.
        checkpoint: `last` or `best`.
        weights: `averaged` where the run has averaged weights, or `raw`.
        device: `auto`, `cpu`, `cuda:N` or `mps`.
        console: where progress is shown; nowhere if not given.
    """
    choice = choice or ContextChoice()
    predictor = Predictor.load(run, checkpoint=checkpoint, device=device, weights=weights)
    # Only for names and scans: nothing is predicted there.
    cases = planned_predictions(source, run, predictor.plan.channels)
    raise_all(unlike_scans(cases, predictor))
    with (
        counted("comparing crops", len(cases) * choice.shifts, console) as on_pair,
        evaluating(predictor.method),
    ):
        scores = [_score(predictor, case, choice, on_pair) for case in cases]
    result = ContextSensitivity(
        source=str(source.absolute()),
        checkpoint=checkpoint,
        averaged=predictor.averaged,
        watermark=predictor.watermark,
        crop=predictor.window,
        shifts=choice.shifts,
        seed=choice.seed,
        rows=tuple(scores),
    )
    write_json(run / "context.json", result.to_json())
    return result


def read_context(run: Path) -> ContextSensitivity | None:
    """What was measured of a run and kept in its folder, if it was."""
    file = run / "context.json"
    return checked(ContextSensitivity, read_json(file), str(file)) if file.exists() else None


def _score(
    predictor: Predictor,
    case: PredictedCase,
    choice: ContextChoice,
    on_pair: Callable[[str], None],
) -> ContextScore:
    def predict(crops: Tensor) -> Tensor:
        prediction = predictor.method.predict(crops.to(predictor.device))
        on_pair(case.case)  # a pair goes through at once
        return prediction

    volume = _prepared(case.images, predictor)
    return score_volume(
        predict, case.case, volume, predictor.window, shifts=choice.shifts, seed=choice.seed
    )


def _prepared(images: Sequence[Path], predictor: Predictor) -> NDArray[np.float32]:
    scan = read_images(images)
    return to_network_grid(scan.array, scan.spacing_mm, predictor.plan)
