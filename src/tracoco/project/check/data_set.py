"""What is wrong with a data set as a whole, judged by all of its cases together."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tracoco.project.check.case_check import CaseCheck, stored_shape
from tracoco.project.check.enough import class_rows, few_rows
from tracoco.project.check.row import Row, fault, warning
from tracoco.project.groups import TRAINING
from tracoco.project.plan import Plan
from tracoco.scans.scan import ScanHeader

UNLIKE = 3.0
"""A spacing or size so many times smaller or larger than the median is probably an error."""


def set_rows(checks: Sequence[CaseCheck], plan: Plan | None) -> list[Row]:
    """All rows that no case has by itself; none where there are no cases to judge."""
    if not checks:
        return []
    seen = [(one, one.header) for one in checks if one.header]
    rows = [] if plan else _channel_rows(seen)
    rows += _unlike_rows(seen)
    rows += _duplicate_rows(checks)
    rows += few_rows(checks)
    rows += class_rows(checks, plan)
    return rows + (_room_rows(seen, plan) if plan else [])


Seen = Sequence[tuple[CaseCheck, ScanHeader]]


def _channel_rows(seen: Seen) -> list[Row]:
    counts = Counter(header.channels for _, header in seen)
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
        for one, header in seen
        if header.channels != usual
    ]


def _unlike_rows(seen: Seen) -> list[Row]:
    rows = []
    for what, of_header in (("spacing", _spacing), ("size", _size)):
        values: dict[int, Any] = {
            index: of_header(header) for index, (_, header) in enumerate(seen)
        }
        if not values:
            continue
        usual = np.median(np.array(list(values.values())), axis=0)
        for index, value in values.items():
            factor = np.abs(np.log(np.divide(value, usual))).max()
            if factor > np.log(UNLIKE):
                case = seen[index][0].case
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
        if one.content:
            copies[one.content].append(one)
    rows = []
    for first, *others in copies.values():
        for one in others:
            leak = one.part != first.part and {one.part, first.part} != set(TRAINING)
            make, way_out = (
                (fault, "take one of them out")
                if leak
                else (warning, "take one of them out, or it counts twice")
            )
            where = f" ({first.part}; this one is {one.part})" if leak else ""
            problem = f"the same voxels as case '{first.case.id}'{where}"
            rows.append(make(one.case.id, one.case.images[0], problem, way_out))
    return rows


def _room_rows(seen: Seen, plan: Plan) -> list[Row]:
    """Scans no larger than a crop: the two crops of a pair cannot lie apart."""
    rows = []
    for one, header in seen:
        stored = stored_shape(one, header, plan)
        axes = range(3 - plan.dimensions, 3)
        if all(stored[axis] <= plan.crop[axis] for axis in axes):
            sizes = (" x ".join(str(size[axis]) for axis in axes) for size in (stored, plan.crop))
            problem = "no room to translate: {} voxels, the crop has {}".format(*sizes)
            way_out = "make the crop in plan.yaml smaller than most scans"
            rows.append(warning(one.case.id, one.case.images[0], problem, way_out))
    return rows
