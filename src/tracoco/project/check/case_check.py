"""One case, opened and looked at: what is wrong with it, and what the whole set is judged by."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracoco.digest import array_digest
from tracoco.errors import UserError
from tracoco.geometry import Box
from tracoco.project.cases import Case
from tracoco.project.check.problem import Row, error_rows, fault, noted, warning
from tracoco.project.plan import Plan
from tracoco.project.preprocess import check_channels, kept_box
from tracoco.project.survey import MOST_VALUES, check_geometry, content_box, death_of
from tracoco.scans.reader import read_grid, read_grids, read_images, read_label
from tracoco.scans.scan import LabelScan, ScanHeader, Shape

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
    fix = "check that image and label belong together, or set crop_to_content to false"
    return [warning(case, label.source, problem, fix)]


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
        names = sides if label.has_geometry else (f"start of axis {axis}", f"end of axis {axis}")
        touched += [name for name, end in zip(names, ends, strict=True) if end.any()]
    if not touched:
        return []
    problem = f"the label touches the edge of the scan: {', '.join(touched)}"
    return [warning(case, label.source, problem, "check that the structure was not cut off")]


@dataclass(frozen=True, slots=True)
class CheckTask:
    """A case to check, and what it is checked against."""

    case: Case
    part: str
    """labelled, unlabelled, validation or test."""
    plan: Plan | None


@dataclass(frozen=True, slots=True, eq=False)
class CaseCheck:
    """What was found out about a case; without a header its image could not be read at all."""

    case: Case
    part: str
    rows: tuple[Row, ...]
    header: ScanHeader | None = None
    content: str = ""
    """Equal for images whose voxels are the same, whatever file they are in."""
    label_voxels: Mapping[int, int] | None = None
    """Voxels of each value; None where the label was not opened, or is broken."""
    box: Box | None = None
    """The part of the scan that is stored; None where its voxels could not be read."""


def check_case(task: CheckTask) -> CaseCheck:
    """Read a case and note what is wrong; the label of an unlabelled one is not opened."""
    case, part, plan = task.case, task.part, task.plan
    rows: list[Row] = []
    header, content, box, voxels = None, "", None, None
    image_file = case.images[0]
    with noted(rows, case.id, image_file):
        header = read_grids(case.images)
        if plan:
            check_channels(header.channels, plan, image_file)
    with noted(rows, case.id, image_file):
        if header:
            content, box = _image_content(read_images(case.images).array, task, rows)
    if header and not header.has_geometry:
        rows.append(
            warning(
                case.id,
                image_file,
                "does not say how large its voxels are; 1 mm is assumed",
                "save it in a format with a spacing, or read distances as voxels",
            )
        )
    if case.label and part != "unlabelled":
        with noted(rows, case.id, case.label):
            if header:
                check_geometry(header, read_grid(case.label))
            label = read_label(case.label)
            voxels = label_voxels(label, plan, rows, case.id)
            rows += margin_rows(label, box, case.id) if box else []
    return CaseCheck(case, part, tuple(rows), header, content, voxels, box)


def stored_shape(one: CaseCheck, header: ScanHeader, plan: Plan | None) -> Shape:
    """What the store will have of a scan; at most that, if its voxels could not be read."""
    x, y, z = one.box.size if one.box else header.shape
    return plan.stored_shape((x, y, z), header.spacing_mm) if plan else (x, y, z)


def lost_check(task: CheckTask, how: str) -> CaseCheck:
    """For a case whose process ended while it was checked."""
    rows = error_rows(UserError(death_of(task.case, how)), task.case.id, task.case.images[0])
    return CaseCheck(task.case, task.part, tuple(rows))


def _image_content(array: NDArray[np.float32], task: CheckTask, rows: list[Row]) -> tuple[str, Box]:
    """What tells the image from others, and the part of it that is stored."""
    case, plan = task.case, task.plan
    for index, channel in enumerate(array):
        low, high = float(channel.min()), float(channel.max())
        if low == high:
            which = f"channel {index}" if len(array) > 1 else "the image"
            rows.append(
                fault(
                    case.id,
                    case.images[min(index, len(case.images) - 1)],
                    f"{which} is {low:g} everywhere",
                    "export it again, or take the case out",
                )
            )
    # A plan that is still to be made leaves margins out.
    return array_digest(array), kept_box(array, plan) if plan else content_box(array)
