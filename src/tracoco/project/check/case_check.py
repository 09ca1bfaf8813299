"""One case, opened and looked at: what is wrong with it, and what the whole set is judged by."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracoco.errors import UserError
from tracoco.geometry import Box
from tracoco.project.cases import Case
from tracoco.project.check.label_check import label_voxels, margin_rows
from tracoco.project.check.row import Row, error_rows, fault, noted, warning
from tracoco.project.content import content_box
from tracoco.project.digest import array_digest
from tracoco.project.look import check_geometry, death_of
from tracoco.project.plan import Plan
from tracoco.project.preprocess import check_channels, kept_box
from tracoco.scans.reader import read_grid, read_grids, read_images, read_label
from tracoco.scans.scan import ScanHeader, Shape


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
    if header and not header.placed:
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
