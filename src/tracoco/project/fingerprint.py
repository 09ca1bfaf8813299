"""What a data set looks like before it is planned: sizes, spacings, intensities, label values."""

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from tracoco.errors import UserError, raise_all
from tracoco.files import read_json, write_json
from tracoco.project.cases import Case, source_bytes
from tracoco.project.splits import Splits
from tracoco.project.survey import (
    MOST_VALUES,
    CaseStatistics,
    Foreground,
    Look,
    LookTask,
    describe_foreground,
    look_at,
    lost_look,
)
from tracoco.project.workers import in_parallel, suitable_workers

MOST_OF_A_CASE = 10_000
MOST_OF_ALL = 1_000_000
"""Foreground voxels that are held in memory, however many labelled cases there are."""


@dataclass(frozen=True, slots=True)
class LabelValue:
    """A value of the label maps, how many voxels have it, and in how many cases."""

    value: int
    voxels: int
    cases: int


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Every image and every label value; labels of unlabelled cases are not looked at."""

    cases: tuple[CaseStatistics, ...]
    labels: tuple[LabelValue, ...]
    foreground: tuple[Foreground, ...] = ()
    """Intensities inside the structures, by channel, of the cases that teach with a label: those
    kept for validation and test have no say in how scans are normalised."""


def take_fingerprint(
    cases: Sequence[Case],
    splits: Splits,
    *,
    on_case: Callable[[str], None] | None = None,
    workers: int | None = 1,
) -> Fingerprint:
    """Look at all images and at the labels of annotated cases; raise all problems at once.

    Args:
        cases: what to look at.
        splits: says which labels may be opened.
        on_case: called with the id of each case once it is dealt with.
        workers: processes; None for as many as suit the machine and the data.
    """
    if workers is None:
        workers = suitable_workers(sum(map(source_bytes, cases)))
    tasks = _tasks(cases, splits)
    looks: dict[str, Look] = {}
    with closing(in_parallel(look_at, tasks, workers, died=lost_look)) as results:
        for task, look in results:
            looks[task.case.id] = look
            if on_case:
                on_case(task.case.id)
    return _summary([looks[case.id] for case in cases])


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


def _tasks(cases: Sequence[Case], splits: Splits) -> list[LookTask]:
    fraction = min(MOST_OF_A_CASE, max(1, MOST_OF_ALL // len(splits.labelled)))
    teaching, annotated = set(splits.labelled), splits.annotated
    return [
        LookTask(
            case if case.id in annotated else replace(case, label=None),
            fraction if case.id in teaching else 0,
        )
        for case in cases
    ]


def _summary(looks: Sequence[Look]) -> Fingerprint:
    facts = tuple(look.facts for look in looks if look.facts)
    voxels: Counter[int] = Counter()
    holders: Counter[int] = Counter()
    for look in looks:
        voxels.update(look.label_voxels)
        holders.update(look.label_voxels.keys())
    labels = tuple(LabelValue(value, voxels[value], holders[value]) for value in sorted(voxels))
    problems = [problem for look in looks for problem in look.problems]
    problems += _channel_problems(facts)
    if not problems:  # a broken label would also be missed here
        problems += _value_problems([fact.value for fact in labels])
    raise_all(problems)
    return Fingerprint(facts, labels, describe_foreground(_joined(looks)))


def _joined(looks: Sequence[Look]) -> NDArray[np.float32]:
    samples = [look.foreground for look in looks if look.foreground is not None]
    return np.concatenate(samples, axis=1) if samples else np.zeros((0, 0), dtype=np.float32)


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


def _value_problems(values: Sequence[int]) -> list[str]:
    if not any(values):
        return ["the labels hold nothing but background (0); at least one structure is needed"]
    if len({0, *values}) > MOST_VALUES:
        return [f"the labels hold {len(values)} values together; at most {MOST_VALUES} are allowed"]
    return []
