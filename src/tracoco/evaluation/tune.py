"""Choose options of a prediction on validation cases, and record those that gain more than noise.

An option is recorded if its mean gain of Dice is at least `LEAST_GAIN` points and a one-sided
paired t test over the validation cases, corrected by Holm's method for the number of options that
were tried, has p below `LEVEL`. Of options that exclude each other the better one is taken.
Several options together are predicted once more, and recorded only if they are at least as good as
the best one alone.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from scipy.stats import t as student

from tracoco.console import counted
from tracoco.errors import UserError
from tracoco.evaluation.bootstrap import LEVEL, holm
from tracoco.evaluation.metrics import dice
from tracoco.files import content_hash, write_json
from tracoco.inference.model_choice import Tuned, Views, mirrored_dimensions, tuned_file
from tracoco.inference.predictor import Predictor
from tracoco.project.cases import Case
from tracoco.project.folder import Project
from tracoco.project.plan import Plan
from tracoco.runs.folder import RunFolder, Weights
from tracoco.scans.reader import read_images, read_label
from tracoco.scans.scan import Scan

LEAST_GAIN = 0.1
"""Points of Dice below which a gain is not worth another step of a prediction."""
SIZES_ML = (0.1, 0.3, 1.0, 3.0)
"""Smallest sizes of components that are tried."""
PLAIN = Tuned()


@dataclass(frozen=True, slots=True)
class TuneRow:
    """One option on the validation cases, against a plain prediction."""

    option: str
    dice: float
    """Mean over the cases, in percent."""
    difference: float | None = None
    """Mean paired difference from the plain prediction, in points; None for that one."""
    p: float | None = None
    """One-sided, corrected for the number of options; None with a single case."""
    chosen: bool = False


@dataclass(frozen=True, slots=True)
class TuneResult:
    """What was tried, and what was recorded."""

    rows: list[TuneRow]
    chosen: Tuned
    cases: tuple[str, ...]
    dice: float
    """Of the validation cases with what was chosen, in percent."""
    case_dice: dict[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The content of `tuned.json`."""
        return {
            "chosen": self.chosen.model_dump(mode="json"),
            "cases": list(self.cases),
            "dice": self.dice,
            "case_dice": self.case_dice,
            "rows": [asdict(row) for row in self.rows],
        }


def tune_run(
    run: Path,
    project: Project,
    *,
    checkpoint: str = "last",
    weights: Weights = "averaged",
    device: str = "auto",
    console: Console | None = None,
) -> TuneResult:
    """Try options on the validation cases of a run, and record the choice in its folder."""
    predictor = Predictor.load(run, checkpoint=checkpoint, weights=weights, device=device)
    cases = _validation_cases(run, project)
    options = list(_options(predictor))
    with counted("predicting validation cases", len(cases), console) as on_case:
        scores = _scores(predictor, cases, options, on_case)
    rows = _compared(options, scores)
    picked = _picked(options, rows)
    chosen, values = _combined(predictor, cases, picked, scores)
    origin = {
        "checkpoint": checkpoint,
        "weights": content_hash(RunFolder(run).checkpoint(checkpoint)),
        "averaged": predictor.averaged,
    }
    parts = _parts(chosen)
    result = TuneResult(
        [replace(row, chosen=bool(row.option) and row.option in parts) for row in rows],
        chosen.model_copy(update=origin),
        tuple(case.id for case in cases),
        fmean(values),
        {case.id: value for case, value in zip(cases, values, strict=True)},
    )
    write_json(tuned_file(run), result.to_json())
    return result


def _validation_cases(run: Path, project: Project) -> list[Case]:
    """The run's validation cases; test cases choose nothing."""
    ids = set(RunFolder(run).splits().validation)
    if not ids:
        raise UserError(
            f"{run} has no validation cases, and test cases must choose nothing; keep some with "
            "tracoco init --validation 3, and train again"
        )
    if not project.exists:
        raise UserError(f"{project.root} is no project; give the run's project with --project")
    cases = [case for case in project.load_cases() if case.id in ids and case.label is not None]
    missing = sorted(ids - {case.id for case in cases})
    if missing:
        raise UserError(
            f"{project.root} has no labelled case '{missing[0]}', which {run} validates"
        )
    return cases


def _options(predictor: Predictor) -> Iterator[Tuned]:
    """The plain prediction, then everything that the run and its plan allow."""
    yield PLAIN
    members = ("first", "both") if predictor.method.has_members else ("first",)
    mirrors = (False, True) if mirrored_dimensions(predictor.plan) else (False,)
    for choice in ((one, mirror) for one in members for mirror in mirrors):
        if choice != ("first", False):
            yield Tuned.model_validate({"members": choice[0], "mirror": choice[1]})
    for value in predictor.plan.label_values[1:]:
        yield Tuned(largest=(value,))
    for size in SIZES_ML:
        yield Tuned(smallest_ml=size)


Scores = Mapping[str, list[float]]
"""Dice of each case in percent, by the text of an option."""


def _scores(
    predictor: Predictor,
    cases: Sequence[Case],
    options: Sequence[Tuned],
    on_case: Callable[[str], None],
) -> Scores:
    scores: dict[str, list[float]] = {option.text: [] for option in options}
    for case in cases:
        scan, truth = _read(case)
        labels: dict[Views, NDArray[Any]] = {}
        for option in options:
            views = Views(option.members, option.mirror)
            if views not in labels:
                labels[views] = replace(predictor, views=views)(scan).label
            label = option.cleaned(labels[views], scan.spacing_mm)
            scores[option.text].append(_case_dice(label, truth, predictor.plan))
        on_case(case.id)
    return scores


def _read(case: Case) -> tuple[Scan, NDArray[Any]]:
    scan = read_images(case.images)
    assert case.label is not None  # noqa: S101 - validation cases have one
    truth = read_label(case.label).array
    if truth.shape != scan.array.shape[1:]:
        raise UserError(
            f"{case.label} has {truth.shape} voxels and its scan {scan.array.shape[1:]}; bring the "
            "label to the grid of the scan"
        )
    return scan, truth


def _case_dice(label: NDArray[Any], truth: NDArray[Any], plan: Plan) -> float:
    """Mean over the classes that the label or the truth has; 100 where neither has any."""
    found = [dice(label == value, truth == value) for value in plan.label_values[1:]]
    known = [100 * value for value in found if value is not None]
    return fmean(known) if known else 100.0


def _compared(options: Sequence[Tuned], scores: Scores) -> list[TuneRow]:
    plain = np.array(scores[PLAIN.text])
    tried = [option.text for option in options[1:]]
    values = [p_of_gain(np.array(scores[text]) - plain) for text in tried]
    corrected = iter(holm([p for p in values if p is not None]))
    rows = [TuneRow("", float(plain.mean()))]
    for text, p in zip(tried, values, strict=True):
        mean = fmean(scores[text])
        difference = mean - float(plain.mean())
        rows.append(TuneRow(text, mean, difference, None if p is None else next(corrected)))
    return rows


def p_of_gain(differences: NDArray[np.float64]) -> float | None:
    """One-sided p value of a paired t test, that the mean is not above 0; None for one case."""
    if len(differences) < 2:
        return None
    mean, error = fmean(differences), stdev(differences) / math.sqrt(len(differences))
    if error == 0:
        return 0.0 if mean > 0 else 1.0
    return float(student.sf(mean / error, len(differences) - 1))


def _picked(options: Sequence[Tuned], rows: Sequence[TuneRow]) -> list[Tuned]:
    """Options that gain more than noise, the best first; of each exclusive kind only the best."""
    gains = [
        (row.difference, option)
        for option, row in zip(options, rows, strict=True)
        if row.p is not None and row.p < LEVEL and (row.difference or 0) >= LEAST_GAIN
    ]
    picked: dict[str, Tuned] = {}
    for _, option in sorted(gains, key=lambda each: -(each[0] or 0)):
        kind = option.text if option.largest else "size" if option.smallest_ml else "views"
        picked.setdefault(kind, option)
    return list(picked.values())


def _combined(
    predictor: Predictor, cases: Sequence[Case], picked: Sequence[Tuned], scores: Scores
) -> tuple[Tuned, list[float]]:
    """All picked options together if they are as good as the best alone, else that one."""
    if not picked:
        return PLAIN, scores[PLAIN.text]
    best = picked[0]
    if len(picked) == 1:
        return best, scores[best.text]
    together = Tuned(
        members="both" if any(each.members == "both" for each in picked) else "first",
        mirror=any(each.mirror for each in picked),
        largest=tuple(sorted(value for each in picked for value in each.largest)),
        smallest_ml=max(each.smallest_ml for each in picked),
    )
    values = _scores(predictor, cases, [together], lambda _: None)[together.text]
    if fmean(values) >= fmean(scores[best.text]):
        return together, values
    return best, scores[best.text]


def _parts(chosen: Tuned) -> set[str]:
    """The texts of the options that a choice is made of."""
    views = Tuned(members=chosen.members, mirror=chosen.mirror)
    single = [Tuned(largest=(value,)) for value in chosen.largest]
    size = Tuned(smallest_ml=chosen.smallest_ml)
    return {each.text for each in (views, *single, size)}
