"""The paper's first figure: two translated crops of a scan, and the answers in their overlap."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tracoco.data.crop import read_box
from tracoco.data.places import has_room
from tracoco.errors import UserError
from tracoco.evaluation.context_pairs import answers, compare, draw_pair
from tracoco.geometry import Box, Index, whole
from tracoco.inference.predictor import Predictor
from tracoco.methods import METHODS
from tracoco.methods.method import evaluating
from tracoco.paper import drawings
from tracoco.paper.figure import Drawn, Row
from tracoco.paper.figures.settings import (
    FigureRun,
    figure_notes,
    preset_for,
    runner_of,
    trained_runs,
)
from tracoco.paper.request import PaperRequest
from tracoco.project.store import Store, StoredCase
from tracoco.training.build import run_crop

OWN = "la-8"
"""The paper names LA and not the number of labels; where context matters most they are few."""
SHOWN = ("supervised", "sassnet", "ua-mt", "cac", "tracoco")
"""Those of the paper's figure that there are, and what learns from labels alone."""
DRAWS, ENOUGH = 200, 0.5

Pair = tuple[Box, Box]


def context(request: PaperRequest, data: str) -> Drawn:
    """The answers of each method in both crops, and how much they differ; seed 0."""
    request = replace(request, seeds=1)
    preset = preset_for(request, data, OWN)
    project, plan = runner_of(request, data).project, runner_of(request, data).project.load_plan()
    if plan.dimensions == 2:
        raise UserError(
            f"{project.root} is a project of slices, and this figure shows volumes; "
            "give a 3D project"
        )
    case = Store(project.store_root).case(project.test_cases()[0].id)
    runs = [FigureRun(name, preset, (f"method.name={name}",)) for name in SHOWN if name in METHODS]
    pair = choose_pair(case, run_crop(request.spec(preset, ()).config(0), plan))
    shown: list[drawings.ContextAnswer] = []
    rows: list[Row] = []
    for run, _, folder in trained_runs(request, data, runs):
        predictor = Predictor.load(folder, device=request.device)
        shown.append(drawings.ContextAnswer(run.title, *crop_labels(predictor, case, pair)))
        rows.append({"method": run.title, "scan": case.id} | _figures(predictor, case, pair))
    figure = drawings.context_figure(case.image()[0], pair, shown, case.spacing_mm)
    notes = (
        f"scan '{case.id}', the first test scan by name, at {pair[0].start} and {pair[1].start} "
        "on the network's grid",
        "in the overlap: disagreement is 1 - Dice of the two answers, differing the share of the "
        "voxels with two labels, both in percent",
        *figure_notes(request, data, OWN),
    )
    return Drawn(figure, rows, notes)


def choose_pair(case: StoredCase, crop: Index) -> Pair:
    """The first of the pairs drawn with seed 0 that shares at least half of the foreground.

    Where none does, since the structure is too large, the one that shares the most.
    """
    if not has_room(case.shape, crop):
        raise UserError(
            f"scan '{case.id}' of {case.shape} voxels has no room for two crops of {crop}; "
            "set a smaller data.crop"
        )
    foreground = case.label() != 0
    pairs = [draw_pair(case.id, case.shape, crop, 0, index) for index in range(DRAWS)]
    held = [_shared_voxels(foreground, pair) for pair in pairs]
    if not max(held):
        raise UserError(f"scan '{case.id}' has no foreground that two crops of {crop} share")
    enough = ENOUGH * np.count_nonzero(foreground)
    return next(
        (p for p, n in zip(pairs, held, strict=True) if n >= enough), pairs[np.argmax(held)]
    )


def _shared_voxels(mask: NDArray[np.bool_], pair: Pair) -> int:
    shared = pair[0].intersect(pair[1]).intersect(whole(mask.shape))
    return int(np.count_nonzero(mask[shared.slices]))


def crop_labels(
    predictor: Predictor, case: StoredCase, pair: Pair
) -> tuple[NDArray[Any], NDArray[Any]]:
    """The class indices that a method gives the voxels of each crop."""
    crops = torch.from_numpy(np.stack([read_box(case.image(), box) for box in pair]))
    with evaluating(predictor.method):
        found = predictor.method.predict(crops.to(predictor.device)).argmax(dim=1)
    first, second = found.cpu().numpy()
    return first, second


def _figures(predictor: Predictor, case: StoredCase, pair: Pair) -> Row:
    def predict(crops: torch.Tensor) -> torch.Tensor:
        return predictor.method.predict(crops.to(predictor.device))

    with evaluating(predictor.method):
        score = compare(*answers(predict, np.array(case.image()), *pair))
    apart = score.disagreement
    return {
        "disagreement": None if apart is None else 100 * apart,
        "differing": 100 * score.differing,
        "published": None,
    }
