"""What a data set looks like before it is planned: sizes, spacings, intensities, label values."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from tracoco.errors import UserError, raise_all
from tracoco.files import read_json, write_json
from tracoco.project.case_statistics import (
    PERCENTILES,
    CaseStatistics,
    six_digits,
)
from tracoco.project.cases import Case
from tracoco.project.labels import MOST_VALUES, PLAIN, LabelRule
from tracoco.project.splits import Splits
from tracoco.project.survey import CaseSurvey, SurveyTask, survey_cases

MOST_OF_A_CASE = 10_000
MOST_OF_ALL = 1_000_000
"""Foreground voxels that are held in memory, however many labelled cases there are."""


@dataclass(frozen=True, slots=True)
class Foreground:
    """One channel inside the structures of all labelled scans."""

    low: float
    """0.5 percent lie below."""
    high: float
    """0.5 percent lie above."""
    mean: float
    sd: float


@dataclass(frozen=True, slots=True)
class LabelValue:
    """A value of the label maps, how many voxels have it, and in how many cases."""

    value: int
    voxels: int
    cases: int
    name: str = ""
    """What label files call it; mostly nothing."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Every image and every label value; labels of unlabelled cases are not read."""

    cases: tuple[CaseStatistics, ...]
    labels: tuple[LabelValue, ...]
    foreground: tuple[Foreground, ...] = ()
    """Intensities inside the structures, by channel, of the cases that teach with a label: those
    kept for validation and test have no say in how scans are normalised."""
    copies: tuple[tuple[str, ...], ...] = ()
    """Ids of the cases that have the same voxels as others, those that are alike together."""


def take_fingerprint(
    cases: Sequence[Case],
    splits: Splits,
    rule: LabelRule = PLAIN,
    *,
    on_case: Callable[[str], None] | None = None,
    workers: int | None = 1,
) -> Fingerprint:
    """Look at all images and at the labels of annotated cases; raise all problems at once.

    Args:
        cases: what to look at.
        splits: says which labels may be opened.
        rule: how labels are read.
        on_case: called with the id of each case once it is dealt with.
        workers: processes; None for as many as suit the machine and the data.
    """
    return _summary(survey_cases(_tasks(cases, splits, rule), on_case, workers))


def write_fingerprint(path: Path, fingerprint: Fingerprint) -> None:
    """Write fingerprint.json."""
    write_json(path, asdict(fingerprint))


def read_fingerprint(path: Path) -> Fingerprint:
    """Read fingerprint.json, also one that knows nothing of intensities or content yet."""
    try:
        return TypeAdapter(Fingerprint).validate_python(_with_new_names(read_json(path)))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise UserError(
            f"{path}: {place}: {first['msg']}; restore the file, or make the project anew"
        ) from None


RENAMED = {"placed": "has_geometry"}
"""Old names of what a fingerprint says of a case, each with the name that it has now."""


def _with_new_names(content: Any) -> Any:
    if not isinstance(content, dict) or not isinstance(content.get("cases"), list):
        return content  # what is wrong with it is said when it is checked
    cases = [
        {RENAMED.get(name, name): value for name, value in case.items()}
        if isinstance(case, dict)
        else case
        for case in content["cases"]
    ]
    return content | {"cases": cases}


def _tasks(cases: Sequence[Case], splits: Splits, rule: LabelRule) -> list[SurveyTask]:
    most = min(MOST_OF_A_CASE, max(1, MOST_OF_ALL // len(splits.labelled)))
    teaching, annotated = set(splits.labelled), splits.annotated
    return [
        SurveyTask(
            case if case.id in annotated else replace(case, label=None),
            most if case.id in teaching else 0,
            rule=rule,
        )
        for case in cases
    ]


def _summary(surveys: Sequence[CaseSurvey]) -> Fingerprint:
    known = tuple(survey.statistics for survey in surveys if survey.statistics)
    voxels: Counter[int] = Counter()
    holders: Counter[int] = Counter()
    for survey in surveys:
        if survey.label:
            voxels.update(survey.label.voxels)
            holders.update(survey.label.voxels.keys())
    names = {
        structure.value: structure.name
        for survey in reversed(surveys)
        if survey.label
        for structure in survey.label.structures
    }
    labels = tuple(
        LabelValue(value, voxels[value], holders[value], names.get(value, ""))
        for value in sorted(voxels)
    )
    problems = [
        problem
        for survey in surveys
        for problem in (*survey.image_problems, *survey.label_problems)
    ]
    problems += _channel_problems(known)
    problems += _name_problems(surveys, names)
    if not problems:  # a broken label would also be missed here
        problems += _value_problems([fact.value for fact in labels])
    raise_all(problems)
    return Fingerprint(known, labels, describe_foreground(_joined(surveys)), _copies(surveys))


def _copies(surveys: Sequence[CaseSurvey]) -> tuple[tuple[str, ...], ...]:
    by_voxels: dict[str, list[str]] = defaultdict(list)
    for survey in surveys:
        if survey.image:
            by_voxels[survey.image.digest].append(survey.case.id)
    return tuple(tuple(alike) for alike in by_voxels.values() if len(alike) > 1)


def _joined(surveys: Sequence[CaseSurvey]) -> NDArray[np.float32]:
    labels = [survey.label for survey in surveys if survey.label]
    samples = [label.foreground for label in labels if label.foreground is not None]
    return np.concatenate(samples, axis=1) if samples else np.zeros((0, 0), dtype=np.float32)


def describe_foreground(samples: NDArray[np.float32]) -> tuple[Foreground, ...]:
    """Describe each channel of samples [C, N] of all labelled scans; none without any voxel."""
    return tuple(_described(values) for values in samples) if samples.size else ()


def _described(values: NDArray[np.float32]) -> Foreground:
    low, high = np.percentile(values, (PERCENTILES[0], PERCENTILES[-1]))
    mean, sd = values.mean(dtype=np.float64), values.std(dtype=np.float64)
    return Foreground(six_digits(low), six_digits(high), six_digits(mean), six_digits(sd))


def _channel_problems(facts: Sequence[CaseStatistics]) -> list[str]:
    counts = Counter(fact.channels for fact in facts)
    if len(counts) < 2:
        return []
    usual = counts.most_common(1)[0][0]
    return [
        f"case '{fact.id}' has {fact.channels} channels, most have {usual}; give all the same"
        for fact in facts
        if fact.channels != usual
    ]


def _name_problems(surveys: Sequence[CaseSurvey], names: Mapping[int, str]) -> list[str]:
    """A value that two files name differently: one of them means another structure."""
    return [
        f"{survey.label.header.source} calls value {structure.value} '{structure.name}', another "
        f"label calls it '{names[structure.value]}'; give one structure one value in all labels"
        for survey in surveys
        if survey.label
        for structure in survey.label.structures
        if structure.name.casefold() != names[structure.value].casefold()
    ]


def _value_problems(values: Sequence[int]) -> list[str]:
    if not any(values):
        return ["the labels hold nothing but background (0); at least one structure is needed"]
    if len({0, *values}) > MOST_VALUES:
        return [f"the labels hold {len(values)} values together; at most {MOST_VALUES} are allowed"]
    return []
