"""Whether predictions fit the truths that they are paired with: grids and label values."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from tracoco.errors import UserError
from tracoco.evaluation.pairs import Pair
from tracoco.scans.reader import read_label
from tracoco.scans.scan import SAME_GRID, LabelScan, voxels_apart


def check_pairs(pairs: Sequence[Pair], known: set[int], problems: list[str]) -> list[int]:
    """Collect what does not fit, and give the classes: known ones, and all of the truths but 0."""
    predicted: dict[Pair, set[int]] = {}
    true: set[int] = set()
    for pair in pairs:
        try:
            prediction, truth = read_label(pair.prediction), read_label(pair.truth)
        except UserError as error:
            problems.append(str(error))
            continue
        problems.extend(_grid_problems(prediction, truth))
        predicted[pair] = _values(prediction)
        true |= _values(truth)
    if predicted and not true:
        problems.append("no truth has a labelled voxel: all are 0, so there is nothing to score")
    else:
        problems.extend(_unknown_values(predicted, true | known))
    return sorted(true | known)


def _values(label: LabelScan) -> set[int]:
    return set(np.unique(label.array[label.array != 0]).tolist())


def _unknown_values(predicted: Mapping[Pair, set[int]], true: set[int]) -> Iterator[str]:
    for pair, values in predicted.items():
        if values - true:
            yield (
                f"{pair.prediction} has the values {_listed(values - true)}, which no truth has; "
                f"known are {_listed(true)}. Give its classes the values of the truth"
            )


def _listed(values: set[int]) -> str:
    return ", ".join(map(str, sorted(values)))


def _grid_problems(prediction: LabelScan, truth: LabelScan) -> Iterator[str]:
    if prediction.array.shape != truth.array.shape:
        yield (
            f"{prediction.source} has {prediction.array.shape} voxels, {truth.source} has "
            f"{truth.array.shape}; resample the prediction to the grid of its scan"
        )
        return
    x, y, z = truth.array.shape
    off = voxels_apart(truth.affine, prediction.affine, (x, y, z))
    if off > SAME_GRID:
        yield (
            f"{prediction.source} and {truth.source} lie up to {off:.2f} voxels apart in space; "
            "write the prediction with the affine of its scan, or resample it to that grid"
        )
