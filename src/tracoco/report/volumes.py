"""The files of a scored case, found again and read for its picture."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracoco.errors import UserError
from tracoco.evaluation.pairs import Pair, pair_files
from tracoco.inference.components import remove_small_components
from tracoco.report.scored import ScoreSet
from tracoco.report.slices import Box
from tracoco.scans.reader import read_images, read_label
from tracoco.scans.scan import Spacing


@dataclass(frozen=True, slots=True, eq=False)
class CaseVolumes:
    """One case in memory, [X, Y, Z] all on one grid; the first channel of its image."""

    image: NDArray[np.float32]
    truth: NDArray[Any]
    prediction: NDArray[Any]
    spacing_mm: Spacing

    def within(self, box: Box) -> "CaseVolumes":
        """The part in a box."""
        parts = {name: getattr(self, name)[box] for name in ("image", "truth", "prediction")}
        return replace(self, **parts)


def read_case(scores: ScoreSet, case: str) -> CaseVolumes:
    """Read a case, or say which of its files is gone."""
    source = next((row.images for row in scores.note.rows if row.case == case), None)
    if source is None:
        raise UserError(f"{scores.folder} has no predictions.json that names the scan of '{case}'")
    pair = _label_files(scores, case)
    image, truth, found = read_images(source), read_label(pair.truth), read_label(pair.prediction)
    if not image.array.shape[1:] == truth.array.shape == found.array.shape:
        raise UserError(f"{source[0]} and the labels of '{case}' have different shapes")
    shown = remove_small_components(found.array) if scores.file.protocol.cct else found.array
    return CaseVolumes(image.array[0], truth.array, shown, truth.spacing_mm)


def _label_files(scores: ScoreSet, case: str) -> Pair:
    truth = scores.file.truth
    if truth is None:
        raise UserError(f"{scores.folder / 'scores.json'} does not say where the true labels are")
    pairs, _ = pair_files(scores.prediction, truth)
    pair = next((pair for pair in pairs if pair.case == case), None)
    if pair is None:
        raise UserError(f"{scores.prediction} and {truth} no longer both have '{case}'")
    return pair
