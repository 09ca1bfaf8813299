"""The problems of a data set, one row each: where it is, how bad it is, what its owner can do."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from tracoco.errors import UserError, collected
from tracoco.project.case_statistics import ImageStatistics, LabelStatistics
from tracoco.project.cases import AXES, Case
from tracoco.project.plan import Plan
from tracoco.project.preprocess import check_channels, check_stored_size
from tracoco.project.survey import CaseSurvey
from tracoco.scans.scan import ScanHeader, Shape

Severity = Literal["error", "warning"]

# The last sentence of a message says how to fix it, or the last clause of a single sentence.
_SENTENCE = re.compile(r"(.*)\. (?=[A-Z`])(.*)", re.DOTALL)
_CLAUSE = re.compile(r"(.*); (.*)", re.DOTALL)

# How `raise_all` begins.
_SEVERAL = re.compile(r"\d+ problems:")


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table. An error stops a later command, a warning does not."""

    case: str
    """Empty where the data set as a whole is meant."""
    file: str
    severity: Severity
    problem: str
    fix: str


def error_rows(error: UserError, case: str = "", file: Path | None = None) -> list[Row]:
    """The rows of an error, one for each problem that it names."""
    first, *lines = str(error).splitlines()
    problems = lines if _SEVERAL.fullmatch(first) else [str(error)]
    return [_row(line.strip(), case, file) for line in problems]


def warning(case: str, file: Path | None, problem: str, fix: str) -> Row:
    """A row that stops nothing."""
    return Row(case, str(file or ""), "warning", problem, fix)


def fault(case: str, file: Path | None, problem: str, fix: str) -> Row:
    """A row of severity error."""
    return Row(case, str(file or ""), "error", problem, fix)


@contextmanager
def noted(rows: list[Row], case: str = "", file: Path | None = None) -> Iterator[None]:
    """Make rows of what the user has to change, and of files that cannot be opened; go on."""
    try:
        yield
    except UserError as error:
        rows += error_rows(error, case, file)
    except OSError as error:
        where = Path(error.filename) if error.filename else file
        rows.append(
            fault(case, where, f"cannot be read ({error.strerror})", "check path and permissions")
        )


def _row(message: str, case: str, file: Path | None) -> Row:
    """Take a message apart; the file is not repeated where the message starts with it."""
    match = _SENTENCE.fullmatch(message) or _CLAUSE.fullmatch(message)
    problem, fix = match.groups() if match else (message, "")
    if file:
        problem = problem.removeprefix(f"{file} ").removeprefix(f"{file}: ")
    return fault(case, file, problem, fix)


FACES = (("left", "right"), ("back", "front"), ("foot", "head"))
ENDS = ("start", "end")


@dataclass(frozen=True, slots=True, eq=False)
class CaseCheck:
    """A case that was read, the part of the split that it is in, and what is wrong with it."""

    survey: CaseSurvey
    part: str
    """labelled, unlabelled, validation or test."""
    rows: tuple[Row, ...]

    @property
    def case(self) -> Case:
        """The case; an unlabelled one has no label here."""
        return self.survey.case

    @property
    def header(self) -> ScanHeader | None:
        """None where the image could not be read at all."""
        return self.survey.header

    def stored_shape(self, header: ScanHeader, plan: Plan | None) -> Shape:
        """What the store will have of a scan; at most that, if its voxels could not be read."""
        size = _kept_size(self.survey, header, plan)
        return plan.stored_shape(size, header.spacing_mm) if plan else size


def _kept_size(survey: CaseSurvey, header: ScanHeader, plan: Plan | None) -> Shape:
    if not survey.image or (plan and not plan.crop_to_content):
        return header.shape
    x, y, z = survey.image.content.size  # a plan that is still to be made leaves margins out
    return x, y, z


def check_case(survey: CaseSurvey, part: str, plan: Plan | None) -> CaseCheck:
    """Judge one case by what its survey found."""
    rows = [*_image_rows(survey, plan), *_label_rows(survey, plan)]
    return CaseCheck(survey, part, tuple(rows))


def _image_rows(survey: CaseSurvey, plan: Plan | None) -> Iterator[Row]:
    case, header, file = survey.case, survey.header, survey.case.images[0]
    problems: list[str] = []
    if plan and header:
        with collected(problems):
            check_channels(header.channels, plan, file)
        with collected(problems):
            check_stored_size(_kept_size(survey, header, plan), header.spacing_mm, plan, file)
    for problem in (*problems, *survey.image_problems):
        yield from error_rows(UserError(problem), case.id, file)
    if survey.image:
        yield from _constant_rows(case, survey.image)
    if header and not header.has_geometry:
        yield warning(
            case.id,
            file,
            "does not say how large its voxels are; 1 mm is assumed",
            "save it in a format with a spacing, or read distances as voxels",
        )


def _constant_rows(case: Case, image: ImageStatistics) -> Iterator[Row]:
    for channel in image.constant:
        which = f"channel {channel}" if len(image.intensities) > 1 else "the image"
        yield fault(
            case.id,
            case.images[min(channel, len(case.images) - 1)],
            f"{which} is {image.intensities[channel].lowest:g} everywhere",
            "export it again, or take the case out",
        )


def _label_rows(survey: CaseSurvey, plan: Plan | None) -> Iterator[Row]:
    id_, file, label = survey.case.id, survey.case.label, survey.label
    for problem in survey.label_problems:
        yield from error_rows(UserError(problem), id_, file)
    if label is None:
        return
    unknown = sorted(set(label.voxels) - set(plan.label_values)) if plan else []
    if plan and unknown:
        known = ", ".join(map(str, plan.label_values))
        yield fault(
            id_,
            file,
            f"has the values {', '.join(map(str, unknown[:10]))}; the plan has {known}",
            "correct the label, or add them to label_values and class_names in plan.yaml",
        )
    if set(label.voxels) == {0}:
        yield warning(
            id_,
            file,
            "the label is empty: 0 everywhere",
            "fine if nothing is there to see; else label it, or remove the file",
        )
    yield from _drawn_rows(survey.case, label)
    faces = ", ".join(_touched_faces(label, plan))
    if faces:
        problem = f"the label touches the edge of the scan: {faces}"
        yield warning(id_, file, problem, "check that the structure was not cut off")
    if label.in_margin and (plan is None or plan.crop_to_content):
        problem = (
            f"{label.in_margin} labelled voxels lie in the image's constant margin, which is left "
            "out"
        )
        fix = "check that image and label belong together, or set crop_to_content to false"
        yield warning(id_, file, problem, fix)


SLICED = 0.5
"""Fraction of empty slices within a structure from which it looks drawn on single slices."""


def _drawn_rows(case: Case, label: LabelStatistics) -> Iterator[Row]:
    """Labels that do not cover their scan, and those that look as if they did not."""
    if label.box:
        start, stop = label.box.start, label.box.stop
        problem = f"the label covers voxels {start} to before {stop} of its scan alone"
        fix = "what lies outside counts as background; fine if nothing was left out"
        yield warning(case.id, case.label, problem, fix)
    axis = int(np.argmax(label.empty_slices))
    if case.drawn.slices is None and not label.undrawn and label.empty_slices[axis] >= SLICED:
        name = next(name for name, number in AXES.items() if number == axis)
        problem = (
            f"{100 * label.empty_slices[axis]:.0f} % of the {name} slices within the structures "
            "are empty, as if only some slices were drawn"
        )
        fix = (
            f"if so, make the project with `init --drawn-slices {name}`, and the others count as "
            "unlabelled, not as background"
        )
        yield warning(case.id, case.label, problem, fix)


def _touched_faces(label: LabelStatistics, plan: Plan | None) -> Iterator[str]:
    """Where structures go on outside of the scan; slices of 2D projects end where they like."""
    for axis, end in label.touched:
        if (plan and plan.slice_axis == axis) or label.header.shape[axis] == 1:
            continue
        yield FACES[axis][end] if label.header.has_geometry else f"{ENDS[end]} of axis {axis}"
