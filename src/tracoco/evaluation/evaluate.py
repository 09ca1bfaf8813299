"""Evaluate files: pair predictions with reference labels, check that they fit, and score them.

A prediction that is missing is a problem, never a shorter table.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tracoco.components import remove_small_components
from tracoco.errors import UserError, raise_all
from tracoco.evaluation.calibration import Calibration, calibrate
from tracoco.evaluation.score_case import score_case
from tracoco.evaluation.scores import CaseScore, Evaluation, Protocol
from tracoco.files import write_json
from tracoco.inference.manifest import Manifest, check_predictions, map_files
from tracoco.lock import only_writer
from tracoco.memory import freed_memory_kept, reused_blocks
from tracoco.project.cases import ALL_DRAWN, Case, Drawn
from tracoco.project.folder import Project
from tracoco.project.labels import LabelRule, read_drawn
from tracoco.project.layouts.community import volumes_below
from tracoco.scans.reader import case_name, read_image, read_label, scans_in
from tracoco.scans.scan import LabelScan


@dataclass(frozen=True, slots=True)
class Pair:
    """Two files of one case."""

    case: str
    prediction: Path
    truth: Path
    drawn: Drawn = ALL_DRAWN
    """What of the truth is drawn."""


def pair_files(prediction: Path, truth: Path) -> tuple[list[Pair], list[str]]:
    """Two files make one pair; two folders are paired by stem. Also what keeps files unpaired.

    A project as truth stands for the labels of those parts of its split that are predicted.
    """
    for path in (prediction, truth):
        if not path.exists():
            raise UserError(f"{path} does not exist")
    if prediction.is_dir() != truth.is_dir():
        raise UserError(
            f"{prediction} and {truth} are a file and a folder; give two files or two folders"
        )
    if prediction.is_file():
        return [Pair(case_name(truth), prediction, truth)], []
    problems: list[str] = []
    predictions = _by_stem(prediction, problems)
    drawn: dict[str, Drawn] = {}
    if Project(truth).exists:
        cases = _cases_of_parts(Project(truth), predictions)
        truths = {case.id: case.label for case in cases if case.label}
        drawn = {case.id: case.drawn for case in cases}
    else:
        truths = _by_stem(truth, problems, below=True)
    for stem in sorted(predictions.keys() ^ truths.keys()):
        problems.append(
            f"{predictions[stem]} has no truth: {truth} has no '{stem}'; add it, or move it away"
            if stem in predictions
            else f"{truths[stem]} has no prediction: {prediction} has no '{stem}'; predict it first"
        )
    shared = sorted(predictions.keys() & truths.keys())
    pairs = [
        Pair(stem, predictions[stem], truths[stem], drawn.get(stem, ALL_DRAWN)) for stem in shared
    ]
    return pairs, problems


def _cases_of_parts(project: Project, predictions: Collection[str]) -> list[Case]:
    """The cases of every part of the split that a prediction is of; of the test set if of none.

    Predictions of one fold alone stand for that fold. So a part that was predicted for one half
    alone is no shorter table, but a problem.
    """
    splits, predicted = project.load_splits(), set(predictions)
    annotated = ("labelled", "validation", "test")
    parts = [part for part in annotated if predicted & set(splits.parts[part])]
    for number, fold in enumerate(splits.folds, start=1):
        if predicted.issubset(fold):
            parts = [f"fold {number}"]
    return [case for part in parts or ["test"] for case in project.cases_of(part)]


def _by_stem(folder: Path, problems: list[str], *, below: bool = False) -> dict[str, Path]:
    """The labels of a folder by case; those of HDF5 scans in folders below it only if asked.

    Predictions never lie there: a folder of scans in their place would be scored with itself.
    """
    found: dict[str, Path] = {}
    maps = map_files(folder)  # they lie beside the labels that they belong to
    for path in (path for path in scans_in(folder) if path.name not in maps):
        name = case_name(path)
        first = found.setdefault(name, path)
        if first != path:
            problems.append(f"{first} and {path.name} are both '{name}'; keep one")
    if below and not found:
        found = volumes_below(folder)
    if not found:
        raise UserError(f"{folder} holds no scan; give the folder that the label files are in")
    return found


def check_pairs(pairs: Sequence[Pair], rule: LabelRule, problems: list[str]) -> list[int]:
    """Collect what does not fit, and give the classes: known ones, and all of the truths but 0."""
    known = set(rule.names)
    predicted: dict[Pair, set[int]] = {}
    true: set[int] = set()
    for pair in pairs:
        try:
            prediction, truth = read_pair(pair, rule)
        except UserError as error:
            problems.append(str(error))
            continue
        predicted[pair] = _values(prediction)
        true |= _values(truth)
    if predicted and not true:
        problems.append("no truth has a labelled voxel: all are 0, so there is nothing to score")
    else:
        problems.extend(_unknown_values(predicted, true | known))
    return sorted(true | known)


def _values(label: LabelScan) -> set[int]:
    return set(np.unique(label.array[label.array > 0]).tolist())


def read_pair(pair: Pair, rule: LabelRule) -> tuple[LabelScan, LabelScan]:
    """The prediction and the truth on its voxels; an error where they do not fit together."""
    prediction = read_label(pair.prediction)
    return prediction, read_drawn(pair.truth, prediction.header, rule, pair.drawn)


def _unknown_values(predicted: Mapping[Pair, set[int]], true: set[int]) -> Iterator[str]:
    for pair, values in predicted.items():
        if values - true:
            yield (
                f"{pair.prediction} has the values {_listed(values - true)}, which no truth has; "
                f"known are {_listed(true)}. Give its classes the values of the truth"
            )


def _listed(values: set[int]) -> str:
    return ", ".join(map(str, sorted(values)))


def evaluate_predictions(
    prediction: Path, truth: Path, protocol: Protocol | None = None
) -> Evaluation:
    """Evaluate, and keep the scores of a folder beside its predictions as `scores.json`."""
    if not prediction.is_dir():  # the scores of one file are not those of its folder
        return score_predictions(prediction, truth, protocol or Protocol())
    with only_writer(prediction, "evaluate"):
        result = score_predictions(prediction, truth, protocol or Protocol())
        write_json(prediction / "scores.json", result.to_json())
    return result


def score_predictions(prediction: Path, truth: Path, protocol: Protocol) -> Evaluation:
    """Scores with what must be said of the predictions.

    Class names come from the manifest that `predict` wrote, if it did, and so do a watermark and
    whether the predictions were cleaned (CCT) when they were made.
    """
    folder = prediction if prediction.is_dir() else prediction.parent
    manifest = check_predictions(folder)
    return replace(
        evaluate(prediction, truth, protocol, manifest.labels, manifest.ignore),
        prediction=prediction.absolute(),
        truth=truth.absolute(),
        watermark=manifest.watermark,
        predicted_with_cct=manifest.cct,
        calibration=_calibration(prediction, truth, manifest),
    )


def _calibration(prediction: Path, truth: Path, manifest: Manifest) -> Calibration | None:
    """Of the probability maps that `predict --save probability` wrote; None without them."""
    maps = {row.prediction.name: row.files.get("probability") for row in manifest.rows}
    folder = prediction if prediction.is_dir() else prediction.parent
    known = [
        (folder / found.name, pair.truth)
        for pair in pair_files(prediction, truth)[0]
        if (found := maps.get(pair.prediction.name)) and (folder / found.name).is_file()
    ]
    if not known:
        return None
    cases = ((read_image(file).array, read_label(true).array) for file, true in known)
    return calibrate(cases, (0, *manifest.labels))


def evaluate(
    prediction: Path,
    truth: Path,
    protocol: Protocol,
    names: Mapping[int, str] | None = None,
    ignore: int | None = None,
) -> Evaluation:
    """Score a label file against the truth, or a folder of them, paired by name.

    Args:
        prediction: a file, or a folder with one file a case.
        truth: a file or a folder, as `prediction` is.
        protocol: unit of distances, the score of empty masks, whether predictions are cleaned.
        names: class value to name; a class without one is called by its value. A named class
            counts even where no truth has it, so that inventing it does not go unseen.
        ignore: value of the truths' voxels that nobody has drawn, which count nowhere.
    """
    pairs, problems = pair_files(prediction, truth)
    # Everything is read once for the checks and again for the scores: hundreds of volumes do not
    # fit in memory, and nobody wants to learn of a missing file after an hour.
    known = names or {}
    rule = LabelRule(ignore, known)
    with freed_memory_kept(), reused_blocks():
        values = check_pairs(pairs, rule, problems)
        raise_all(problems)
        classes = {value: known.get(value, str(value)) for value in values}
        scores = [score for pair in pairs for score in _score_pair(pair, classes, protocol, rule)]
    return Evaluation(tuple(scores), protocol)


def _score_pair(
    pair: Pair, classes: Mapping[int, str], protocol: Protocol, rule: LabelRule
) -> list[CaseScore]:
    """The scores of a case, of the structures that are drawn in it."""
    prediction, truth = read_pair(pair, rule)
    found = remove_small_components(prediction.array) if protocol.cct else prediction.array
    wanted = pair.drawn.structures
    drawn = {value: name for value, name in classes.items() if wanted is None or value in wanted}
    return score_case(pair.case, found, truth.array, truth.spacing_mm, drawn, protocol)
