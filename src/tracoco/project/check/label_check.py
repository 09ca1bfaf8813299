"""The label of one case, looked at: its values, whether it is empty, whether it is cut off."""

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracoco.errors import UserError
from tracoco.geometry import Box
from tracoco.project.check.row import Row, fault, warning
from tracoco.project.look import MOST_VALUES
from tracoco.project.plan import Plan
from tracoco.scans.scan import LabelScan

SIDES = (("left", "right"), ("back", "front"), ("foot", "head"))


def label_voxels(label: LabelScan, plan: Plan | None, rows: list[Row], case: str) -> dict[int, int]:
    """Voxels of each value; what a person should look at is added to the rows."""
    file, voxels = label.source, _count(label.array)
    values = sorted(voxels)
    if values[0] < 0 or len(values) > MOST_VALUES:
        raise UserError(
            f"{file} is not a label map: it has {len(values)} values from {values[0]} to "
            f"{values[-1]}; at most {MOST_VALUES} from 0 on are allowed. Check that it is no image"
        )
    unknown = sorted(set(values) - set(plan.label_values)) if plan else []
    if plan and unknown:
        known = ", ".join(map(str, plan.label_values))
        rows.append(
            fault(
                case,
                file,
                f"has the values {', '.join(map(str, unknown[:10]))}; the plan has {known}",
                "correct the label, or add them to label_values and class_names in plan.yaml",
            )
        )
    if values == [0]:
        rows.append(
            warning(
                case,
                file,
                "the label is empty: 0 everywhere",
                "fine if nothing is there to see; else label it, or remove the file",
            )
        )
    rows += _border_rows(label, plan, case)
    return voxels


def margin_rows(label: LabelScan, box: Box, case: str) -> list[Row]:
    """Structures where the image is constant: that part of a scan is not stored."""
    lost = np.count_nonzero(label.array) - np.count_nonzero(label.array[box.slices])
    if not lost:
        return []
    problem = f"{lost} labelled voxels lie in the image's constant margin, which is left out"
    way_out = "check that image and label belong together, or set crop_to_content to false"
    return [warning(case, label.source, problem, way_out)]


def _count(label: NDArray[Any]) -> dict[int, int]:
    """Voxels of each value, a plane at a time: a large label is not sorted as a whole."""
    voxels: Counter[int] = Counter()
    for plane in label:
        values, counts = np.unique(plane, return_counts=True)
        voxels.update(dict(zip(values.tolist(), counts.tolist(), strict=True)))
    return dict(voxels)


def _border_rows(label: LabelScan, plan: Plan | None, case: str) -> list[Row]:
    """Structures that go on outside of the scan; slices of 2D projects end where they like."""
    touched = []
    for axis, sides in enumerate(SIDES):
        if (plan and plan.slice_axis == axis) or label.array.shape[axis] == 1:
            continue
        ends = (label.array.take(0, axis), label.array.take(-1, axis))
        names = sides if label.placed else (f"start of axis {axis}", f"end of axis {axis}")
        touched += [name for name, end in zip(names, ends, strict=True) if end.any()]
    if not touched:
        return []
    problem = f"the label touches the edge of the scan: {', '.join(touched)}"
    return [warning(case, label.source, problem, "check that the structure was not cut off")]
