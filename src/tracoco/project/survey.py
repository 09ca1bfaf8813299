"""The one reading of a case that `init` and `check` share: header, intensities, label values."""

import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path

from tracoco.errors import UserError
from tracoco.project.case_statistics import (
    CaseStatistics,
    ImageStatistics,
    LabelStatistics,
    image_statistics,
    label_statistics,
    six_digits,
)
from tracoco.project.cases import Case, source_bytes
from tracoco.project.labels import PLAIN, LabelRule, read_drawn
from tracoco.project.workers import in_parallel, suitable_workers
from tracoco.scans.reader import read_grid, read_grids, read_images
from tracoco.scans.scan import LabelScan, Scan, ScanHeader


@dataclass(frozen=True, slots=True)
class SurveyTask:
    """A case to read; its label is opened only if it has one."""

    case: Case
    foreground: int = 0
    """How many foreground voxels to bring back."""
    prepare: Callable[[Scan, LabelScan | None], object] | None = None
    """Called while the scans are in memory; time and memory of reading and of this are measured."""
    rule: LabelRule = PLAIN
    """How the label is read."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What it takes to read a case and to prepare it."""

    seconds: float
    peak_bytes: int


@dataclass(frozen=True, slots=True, eq=False)
class CaseSurvey:
    """What was found out about a case; without a header its image could not be read at all."""

    case: Case
    header: ScanHeader | None = None
    image: ImageStatistics | None = None
    """None where the voxels could not be read."""
    label: LabelStatistics | None = None
    """None where the label was not opened, or is broken."""
    image_problems: tuple[str, ...] = ()
    label_problems: tuple[str, ...] = ()
    cost: Cost | None = None
    """Of the case that was prepared too."""

    @property
    def statistics(self) -> CaseStatistics | None:
        """What the fingerprint keeps; with the header alone, channels can still be compared."""
        header = self.header
        if header is None:
            return None
        geometry = (header.shape, header.spacing_mm, header.channels, header.has_geometry)
        statistics = CaseStatistics(self.case.id, *geometry, structures_ml=self._structures_ml())
        if self.image is None:
            return statistics
        x, y, z = self.image.content.size
        return replace(statistics, intensities=self.image.intensities, content_shape=(x, y, z))

    def _structures_ml(self) -> float | None:
        if self.label is None:
            return None
        voxels = sum(amount for value, amount in self.label.voxels.items() if value)
        return six_digits(voxels * prod(self.label.header.spacing_mm) / 1000)


def survey_cases(
    tasks: Sequence[SurveyTask],
    on_case: Callable[[str], None] | None = None,
    workers: int | None = 1,
) -> list[CaseSurvey]:
    """Read all cases, each in one process, and give the surveys in the order of the tasks.

    Args:
        tasks: what to read.
        on_case: called with the id of each case once it is dealt with.
        workers: processes, each with one case in memory; None for as many as suit the machine and
            the data.
    """
    if workers is None:
        workers = suitable_workers(sum(source_bytes(task.case) for task in tasks))
    surveys: dict[str, CaseSurvey] = {}
    with closing(in_parallel(survey_case, tasks, workers, died=lost_survey)) as results:
        for task, survey in results:
            surveys[task.case.id] = survey
            if on_case:
                on_case(task.case.id)
    return [surveys[task.case.id] for task in tasks]


def survey_case(task: SurveyTask) -> CaseSurvey:
    """Read the files of a case once; problems are noted, not raised."""
    if task.prepare is None:
        return _Reading(task).survey(task.foreground)
    tracemalloc.start()
    try:
        began = time.perf_counter()
        reading = _Reading(task)
        seconds = time.perf_counter() - began
        survey = reading.survey(task.foreground)
        if reading.scan is None or survey.image_problems or survey.label_problems:
            return survey
        began = time.perf_counter()
        with suppress(UserError):  # what is wrong with the case is told by those who judge it
            task.prepare(reading.scan, reading.label)
            seconds += time.perf_counter() - began
            survey = replace(survey, cost=Cost(seconds, tracemalloc.get_traced_memory()[1]))
        return survey
    finally:
        tracemalloc.stop()


def lost_survey(task: SurveyTask, how: str) -> CaseSurvey:
    """For a case whose process ended while it was read."""
    return CaseSurvey(task.case, image_problems=(death_of(task.case, how),))


def death_of(case: Case, how: str) -> str:
    """What is told of a case whose process ended."""
    return f"case '{case.id}': the process that read {case.images[0]} {how}"


class _Reading:
    """The scans of a case, each read once, and what was wrong with their files."""

    def __init__(self, task: SurveyTask) -> None:
        case = self.case = task.case
        self.image_problems: list[str] = []
        self.label_problems: list[str] = []
        self.scan: Scan | None = None
        self.label: LabelScan | None = None
        with _noted(self.image_problems, case.images[0]):
            self.scan = read_images(case.images)
        self.header = self.scan.header if self.scan else self._header_alone()
        if case.label:
            with _noted(self.label_problems, case.label):
                # Without an image there is nothing to compare with: the label is read as it is.
                header = self.header or read_grid(case.label)
                self.label = read_drawn(case.label, header, task.rule, case.drawn)

    def survey(self, foreground: int) -> CaseSurvey:
        id_ = self.case.id
        image = image_statistics(self.scan.array, id_) if self.scan else None
        label = None
        if self.label:
            with _noted(self.label_problems, self.label.source):
                label = label_statistics(self.label, self.scan, image, foreground, id_)
        problems = tuple(self.image_problems), tuple(self.label_problems)
        return CaseSurvey(self.case, self.header, image, label, *problems)

    def _header_alone(self) -> ScanHeader | None:
        """Of a scan whose voxels cannot be read: so more that is wrong is found at once."""
        with suppress(UserError, OSError):
            return read_grids(self.case.images)
        return None


@contextmanager
def _noted(problems: list[str], file: Path) -> Iterator[None]:
    """Note what the user has to change, also a file that the system does not let us read."""
    try:
        yield
    except UserError as error:
        problems.append(str(error))
    except OSError as error:
        where = error.filename or file
        problems.append(f"{where} cannot be read ({error.strerror}); check path and permissions")
