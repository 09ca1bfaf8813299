"""Whether a data set has labels and scans enough: too few of them, or of single classes."""

from collections import Counter
from collections.abc import Mapping, Sequence

from tracoco.project.check.case_check import CaseCheck
from tracoco.project.check.row import Row, warning
from tracoco.project.plan import Plan

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
        way_out = "add scans without labels, or use --method supervised or data.reuse_labelled"
        rows.append(
            warning("", None, "no unlabelled cases, which most methods learn from", way_out)
        )
    return rows


def class_rows(checks: Sequence[CaseCheck], plan: Plan | None) -> list[Row]:
    """Classes that hardly any labelled case has."""
    opened = [one.label_voxels for one in checks if one.label_voxels and one.part == "labelled"]
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
