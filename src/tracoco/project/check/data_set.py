"""What is wrong with a data set as a whole, judged by all of its cases together."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tracoco.project.check.problems import CaseCheck, Row, fault, warning
from tracoco.project.plan import Plan
from tracoco.project.splits import TRAINING
from tracoco.scans.scan import ScanHeader

FEW = 3
"""With fewer labels, or fewer cases of a class, what is learnt hangs on single scans."""
MOST_NAMED = 8
"""Classes that a row names before it counts the rest."""


def few_rows(checks: Sequence[CaseCheck]) -> list[Row]:
    """Too few labelled cases, or no unlabelled ones."""
    parts = Counter(one.part for one in checks)
    rows = []
    if parts["labelled"] < FEW:
        problem = f"{parts['labelled']} labelled cases to learn from"
        rows.append(warning("", None, problem, "label more: results hang on single scans"))
    if not parts["unlabelled"]:
        fix = "add scans without labels, or use --method supervised or data.reuse_labelled"
        rows.append(warning("", None, "no unlabelled cases, which most methods learn from", fix))
    return rows


def class_rows(checks: Sequence[CaseCheck], plan: Plan | None) -> list[Row]:
    """Classes that hardly any labelled case has."""
    opened = [
        one.survey.label.voxels for one in checks if one.survey.label and one.part == "labelled"
    ]
    holders = {
        name: sum(value in voxels for voxels in opened)
        for value, name in _class_names(opened, plan).items()
    }
    rare = [f"'{name}' {n}" for name, n in holders.items() if n < min(FEW, len(opened))]
    if not rare:
        return []
    more = f" and {len(rare) - MOST_NAMED} more classes" if len(rare) > MOST_NAMED else ""
    problem = (
        f"of {len(opened)} labelled cases, few have some classes: "
        f"{', '.join(rare[:MOST_NAMED])}{more}"
    )
    return [warning("", None, problem, "label more cases that have them")]


def _class_names(opened: Sequence[Mapping[int, int]], plan: Plan | None) -> dict[int, str]:
    if plan:
        return dict(list(zip(plan.label_values, plan.class_names, strict=True))[1:])
    values = sorted({value for voxels in opened for value in voxels} - {0})
    return {value: f"label {value}" for value in values}


UNLIKE = 3.0
"""A spacing or size so many times smaller or larger than the median is probably an error."""


def set_rows(checks: Sequence[CaseCheck], plan: Plan | None) -> list[Row]:
    """All rows that no case has by itself; none where there are no cases to judge."""
    if not checks:
        return []
    read = [(one, one.header) for one in checks if one.header]
    rows = [] if plan else _channel_rows(read)
    rows += _unlike_rows(read)
    rows += _duplicate_rows(checks)
    rows += few_rows(checks)
    rows += class_rows(checks, plan)
    return rows + (_room_rows(read, plan) if plan else [])


ReadCases = Sequence[tuple[CaseCheck, ScanHeader]]


def _channel_rows(read: ReadCases) -> list[Row]:
    counts = Counter(header.channels for _, header in read)
    if not counts:
        return []
    usual = counts.most_common(1)[0][0]
    return [
        fault(
            one.case.id,
            one.case.images[0],
            f"has {header.channels} channels, most scans {usual}",
            "give all cases the same channels",
        )
        for one, header in read
        if header.channels != usual
    ]


def _unlike_rows(read: ReadCases) -> list[Row]:
    rows = []
    for what, of_header in (("spacing", _spacing), ("size", _size)):
        values: dict[int, Any] = {
            index: of_header(header) for index, (_, header) in enumerate(read)
        }
        if not values:
            continue
        usual = np.median(np.array(list(values.values())), axis=0)
        for index, value in values.items():
            factor = np.abs(np.log(np.divide(value, usual))).max()
            if factor > np.log(UNLIKE):
                case = read[index][0].case
                found, median = (
                    " x ".join(f"{v:.4g}" for v in vector) for vector in (value, usual)
                )
                rows.append(
                    warning(
                        case.id,
                        case.images[0],
                        f"its {what} of {found} mm is far from the median, {median} mm",
                        "check its header, and that it is a scan of the same kind",
                    )
                )
    return rows


def _spacing(header: ScanHeader) -> tuple[float, ...]:
    return header.spacing_mm


def _size(header: ScanHeader) -> tuple[float, ...]:
    return tuple(n * side for n, side in zip(header.shape, header.spacing_mm, strict=True))


def _duplicate_rows(checks: Iterable[CaseCheck]) -> list[Row]:
    """The same image twice: a leak where one is kept away, else it only counts double."""
    copies: dict[str, list[CaseCheck]] = defaultdict(list)
    for one in checks:
        if one.survey.image:
            copies[one.survey.image.digest].append(one)
    rows = []
    for first, *others in copies.values():
        for one in others:
            leak = one.part != first.part and {one.part, first.part} != set(TRAINING)
            make, fix = (
                (fault, "take one of them out")
                if leak
                else (warning, "take one of them out, or it counts twice")
            )
            where = f" ({first.part}; this one is {one.part})" if leak else ""
            problem = f"the same voxels as case '{first.case.id}'{where}"
            rows.append(make(one.case.id, one.case.images[0], problem, fix))
    return rows


def _room_rows(read: ReadCases, plan: Plan) -> list[Row]:
    """Scans no larger than a crop: the two crops of a pair cannot lie apart."""
    rows = []
    for one, header in read:
        stored = one.stored_shape(header, plan)
        axes = range(3 - plan.dimensions, 3)
        if all(stored[axis] <= plan.crop[axis] for axis in axes):
            sizes = (" x ".join(str(size[axis]) for axis in axes) for size in (stored, plan.crop))
            problem = "no room to translate: {} voxels, the crop has {}".format(*sizes)
            fix = "make the crop in plan.yaml smaller than most scans"
            rows.append(warning(one.case.id, one.case.images[0], problem, fix))
    return rows
