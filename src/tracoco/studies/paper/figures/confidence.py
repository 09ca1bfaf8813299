"""The figure of confidence: how sure networks that learn with MSE and with CRC are."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from tracoco.console import counted
from tracoco.inference.folding import ready_to_predict
from tracoco.inference.predictor import Predictor
from tracoco.inference.sliding_window import predict_volume
from tracoco.project.preprocess import is_structure
from tracoco.project.store import Store, StoredCase
from tracoco.studies.paper.figure import Drawn, Row
from tracoco.studies.paper.figures.figure_settings import (
    FigureRun,
    figure_notes,
    preset_for,
    runner_of,
    trained_runs,
)
from tracoco.studies.paper.figures.training_drawings import confidence_histograms
from tracoco.studies.paper.request import PaperRequest

OWN = "pancreas-12"
LOSSES = ("mse", "crc")
BINS = 50
SURE = 0.9
"""Or below 1 - SURE; both are edges of bins."""
Counts = NDArray[np.int64]


def confidence(request: PaperRequest, data: str) -> Drawn:
    """Histograms over all test scans, for one seed of each loss."""
    request = replace(request, seeds=1)
    runner = runner_of(request, data)
    store = Store(runner.project.store_root)
    cases = [store.case(case.id) for case in runner.project.test_cases()]
    preset = preset_for(request, data, OWN)
    runs = [
        FigureRun(loss, preset, ("method.name=tracoco", f"method.semi_supervised={loss}"))
        for loss in LOSSES
    ]
    panels: dict[str, tuple[Counts, Counts]] = {}
    for run, _, folder in trained_runs(request, data, runs):
        panels[run.title] = _histograms(request, folder, cases)
    rows = [_row(loss, *counts) for loss, counts in panels.items()]
    figure = confidence_histograms({loss.upper(): counts for loss, counts in panels.items()})
    notes = (
        f"percent of the true foreground given more than {SURE:.1f} and of the true background "
        f"given less than {1 - SURE:.1f}, on {len(cases)} test scans; the paper shows the "
        "histograms and states no number",
        *figure_notes(request, data, OWN),
    )
    return Drawn(figure, rows, notes)


def confidence_counts(
    predictions: Iterator[tuple[NDArray[np.float32], NDArray[np.uint8]]],
) -> tuple[Counts, Counts]:
    """Voxels of the true background and of the true foreground, by how likely they are foreground.

    Args:
        predictions: foreground probabilities and class indices of one scan after the other.
    """
    background, foreground = np.zeros(BINS, np.int64), np.zeros(BINS, np.int64)
    for probability, label in predictions:
        background += np.histogram(probability[label == 0], BINS, (0.0, 1.0))[0]
        foreground += np.histogram(probability[is_structure(label)], BINS, (0.0, 1.0))[0]
    return background, foreground


def sure_shares(background: Counts, foreground: Counts) -> tuple[float | None, float | None]:
    """Percent of the foreground in the bins above SURE, of the background in those below 1 - SURE.

    None where there is no such voxel.
    """
    edge = round(BINS * (1 - SURE))
    found, ruled_out = foreground[BINS - edge :].sum(), background[:edge].sum()
    return _percent(found, foreground.sum()), _percent(ruled_out, background.sum())


def _histograms(
    request: PaperRequest, folder: Path, cases: list[StoredCase]
) -> tuple[Counts, Counts]:
    predictor = Predictor.load(folder, device=request.device)

    def predictions() -> Iterator[tuple[NDArray[np.float32], NDArray[np.uint8]]]:
        for case in cases:
            volume = torch.from_numpy(np.array(case.image())).to(predictor.device)
            found = predict_volume(method.predict, volume, *predictor.cover(volume.shape[1:]))
            # Windows are averaged in single precision, which may end a hair outside of [0, 1].
            yield (1 - found[0]).clamp(0, 1).cpu().numpy(), case.label()
            on_case(case.id)

    with (
        counted("predicting", len(cases), request.console) as on_case,
        ready_to_predict(predictor.method) as method,
    ):
        return confidence_counts(predictions())


def _row(loss: str, background: Counts, foreground: Counts) -> Row:
    found, ruled_out = sure_shares(background, foreground)
    return {
        "loss": loss,
        "sure_foreground": found,
        "sure_background": ruled_out,
        "foreground_voxels": int(foreground.sum()),
        "background_voxels": int(background.sum()),
        "published": None,
    }


def _percent(part: int, total: int) -> float | None:
    return 100 * float(part) / float(total) if total else None
