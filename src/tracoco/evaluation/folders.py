"""Evaluate files: pair predictions with truths, check that they fit, score every pair."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tracoco.errors import raise_all
from tracoco.evaluation.pair_checks import check_pairs
from tracoco.evaluation.pairs import Pair, pair_files
from tracoco.evaluation.scores import CaseScore, Protocol, score_case
from tracoco.evaluation.summary import Summary, summarise
from tracoco.files import write_json
from tracoco.inference.components import remove_small_components
from tracoco.inference.kept_memory import freed_memory_kept, reused_blocks
from tracoco.inference.notes import merged_note
from tracoco.scans.reader import read_label

SHARES = ("dice", "jaccard", "nsd", "volume_error")
"""Scores that are computed as fractions and shown in percent."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Scores of all cases and classes, and the conventions that they follow."""

    scores: tuple[CaseScore, ...]
    protocol: Protocol

    @property
    def summary(self) -> Summary:
        """One row for everything."""
        return summarise(self.scores)

    @property
    def classes(self) -> dict[tuple[int, str], Summary]:
        """One row for each class, by its value and name."""
        keys = dict.fromkeys((score.label, score.name) for score in self.scores)
        return {
            key: summarise([s for s in self.scores if (s.label, s.name) == key]) for key in keys
        }

    def to_json(self) -> dict[str, Any]:
        """Plain values; overlaps and volume errors in percent."""
        return {
            "protocol": asdict(self.protocol),
            "summary": asdict(self.summary),
            "classes": [
                {"label": label, "name": name, **asdict(row)}
                for (label, name), row in self.classes.items()
            ],
            "rows": [_in_percent(asdict(score)) for score in self.scores],
        }


def evaluate_predictions(
    prediction: Path, truth: Path, protocol: Protocol | None = None
) -> dict[str, Any]:
    """Evaluate, and keep the scores of a folder beside its predictions as `scores.json`."""
    result = score_predictions(prediction, truth, protocol or Protocol())
    if prediction.is_dir():  # the scores of one file are not those of its folder
        write_json(prediction / "scores.json", result)
    return result


def score_predictions(prediction: Path, truth: Path, protocol: Protocol) -> dict[str, Any]:
    """Scores as plain values, with what must be said of the predictions.

    Class names come from the note that `predict` left there, if it did, and so do a watermark and
    whether the predictions were cleaned (CCT) when they were made.
    """
    folder = prediction if prediction.is_dir() else prediction.parent
    note = merged_note(folder)
    names = {int(value): name for value, name in note.get("labels", {}).items()}
    evaluation = evaluate(prediction, truth, protocol, names)
    origin = {
        "prediction": str(prediction.absolute()),
        "truth": str(truth.absolute()),
        "watermark": note.get("watermark", ""),
        "predicted_with_cct": note.get("cct", False),
    }
    return origin | evaluation.to_json()


def evaluate(
    prediction: Path, truth: Path, protocol: Protocol, names: Mapping[int, str] | None = None
) -> Evaluation:
    """Score a label file against the truth, or a folder of them, paired by name.

    Args:
        prediction: a file, or a folder with one file a case.
        truth: a file or a folder, as `prediction` is.
        protocol: unit of distances, the score of empty masks, whether predictions are cleaned.
        names: class value to name; a class without one is called by its value. A named class
            counts even where no truth has it, so that inventing it does not go unseen.
    """
    pairs, problems = pair_files(prediction, truth)
    # Everything is read once for the checks and again for the scores: hundreds of volumes do not
    # fit in memory, and nobody wants to learn of a missing file after an hour.
    known = names or {}
    with freed_memory_kept(), reused_blocks():
        values = check_pairs(pairs, set(known), problems)
        raise_all(problems)
        classes = {value: known.get(value, str(value)) for value in values}
        scores = [score for pair in pairs for score in _score_pair(pair, classes, protocol)]
    return Evaluation(tuple(scores), protocol)


def _score_pair(pair: Pair, classes: Mapping[int, str], protocol: Protocol) -> list[CaseScore]:
    found, truth = read_label(pair.prediction).array, read_label(pair.truth)
    if protocol.cct:
        found = remove_small_components(found)
    return score_case(pair.case, found, truth.array, truth.spacing_mm, classes, protocol)


def _in_percent(row: dict[str, Any]) -> dict[str, Any]:
    shares = {key: row[key] for key in SHARES if row[key] is not None}
    return row | {key: 100 * value for key, value in shares.items()}
