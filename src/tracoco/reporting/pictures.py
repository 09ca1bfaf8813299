"""The pictures of a report: cases to look at, in slices with true and predicted outlines."""

from dataclasses import dataclass, replace

import numpy as np

from tracoco.components import remove_small_components
from tracoco.errors import UserError
from tracoco.evaluation.evaluate import Pair, pair_files, read_pair
from tracoco.project.labels import LabelRule
from tracoco.reporting.run_record import ScoreSet, worst_median_best
from tracoco.scans.reader import read_images
from tracoco.slices import CaseVolumes, case_figure, png_address


@dataclass(frozen=True, slots=True)
class Picture:
    """A case to look at; where it cannot be drawn, `reason` says why."""

    rank: str
    case: str
    dice: float | None
    missed: bool
    source: str = ""
    reason: str = ""


def case_pictures(scores: ScoreSet) -> list[Picture]:
    """The worst, the median and the best case."""
    return [
        _picture(scores, Picture(rank, case.case, case.dice, case.missed))
        for rank, case in worst_median_best(scores.cases)
    ]


def _picture(scores: ScoreSet, picture: Picture) -> Picture:
    try:
        return replace(picture, source=draw_case(read_case(scores, picture.case)))
    except UserError as error:
        return replace(picture, reason=str(error))


def read_case(scores: ScoreSet, case: str) -> CaseVolumes:
    """Read a case, or say which of its files is gone."""
    source = next((row.images for row in scores.manifest.rows if row.case == case), None)
    if source is None:
        raise UserError(f"{scores.folder} has no predictions.json that names the scan of '{case}'")
    pair = _label_files(scores, case)
    rule = LabelRule(scores.manifest.ignore, scores.manifest.labels)
    image, (found, truth) = read_images(source), read_pair(pair, rule)
    if not image.array.shape[1:] == truth.array.shape == found.array.shape:
        raise UserError(f"{source[0]} and the labels of '{case}' have different shapes")
    shown = remove_small_components(found.array) if scores.evaluation.protocol.cct else found.array
    # What is not drawn has no outline.
    return CaseVolumes(image.array[0], np.maximum(truth.array, 0), shown, truth.spacing_mm)


def _label_files(scores: ScoreSet, case: str) -> Pair:
    truth = scores.evaluation.truth
    if truth is None:
        raise UserError(f"{scores.folder / 'scores.json'} does not say where the true labels are")
    pairs, _ = pair_files(scores.prediction, truth)
    pair = next((pair for pair in pairs if pair.case == case), None)
    if pair is None:
        raise UserError(f"{scores.prediction} and {truth} no longer both have '{case}'")
    return pair


def draw_case(case: CaseVolumes) -> str:
    """The picture as a `data:` address, so that the page needs no other file."""
    if not (case.truth.any() or case.prediction.any()):
        raise UserError("neither the truth nor the prediction has a structure to show")
    return png_address(case_figure(case))
