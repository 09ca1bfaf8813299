"""Context sensitivity of a trained run on scans; the figures stay in the run's folder."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from torch import Tensor

from tracoco.console import counted
from tracoco.errors import raise_all
from tracoco.evaluation.context import ContextScore, score_volume, summarise_context
from tracoco.files import write_json
from tracoco.inference.predictions import unlike_scans
from tracoco.inference.predictor import Predictor
from tracoco.inference.sources import PredictedCase, planned_predictions
from tracoco.methods.method import evaluating
from tracoco.project.preprocess import to_network_grid
from tracoco.scans.reader import read_images
from tracoco.training.checkpoint import Weights


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
) -> dict[str, Any]:
    """Measure a run and write RUN/context.json, which its report shows; the same values come back.

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
    result = {
        "source": str(source.absolute()),
        "checkpoint": checkpoint,
        "averaged": predictor.averaged,
        "watermark": predictor.watermark,
        "crop": list(predictor.window),
        **asdict(choice),
        "summary": asdict(summarise_context(scores)),
        "rows": [asdict(score) for score in scores],
    }
    write_json(run / "context.json", result)
    return result


def _score(
    predictor: Predictor,
    case: PredictedCase,
    choice: ContextChoice,
    on_pair: Callable[[str], None],
) -> ContextScore:
    def predict(crops: Tensor) -> Tensor:
        answer = predictor.method.predict(crops.to(predictor.device))
        on_pair(case.case)  # a pair goes through at once
        return answer

    volume = _prepared(case.images, predictor)
    return score_volume(
        predict, case.case, volume, predictor.window, shifts=choice.shifts, seed=choice.seed
    )


def _prepared(images: Sequence[Path], predictor: Predictor) -> NDArray[np.float32]:
    scan = read_images(images)
    return to_network_grid(scan.array, scan.spacing_mm, predictor.plan)
