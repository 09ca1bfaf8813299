"""The figure of divergence: how far the predictions of two networks part while they train."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from tracoco.errors import UserError
from tracoco.runs.folder import RunFolder
from tracoco.runs.log import StepRecord, read_log
from tracoco.studies.paper.figure import Drawn, Row
from tracoco.studies.paper.figures.figure_settings import (
    FigureRun,
    figure_notes,
    preset_for,
    published_data,
    stated,
    trained_runs,
)
from tracoco.studies.paper.figures.training_drawings import DivergenceSeries, draw_divergence
from tracoco.studies.paper.request import PaperRequest

OWN = "brats19-25"
FRAMEWORKS = {"mean-teacher": "mean-teacher", "co-training": "cps", "tracoco": "tracoco"}
"""What the paper calls those that it compares, and our methods."""
STAGES, LATE = 10, 9
"""Parts of a run, and the one of which the paper's text states numbers."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Means over one part of a run; the first is number 1."""

    number: int
    overlap_ratio: float
    """Fraction of the voxels with the same label."""
    distance: float
    """Summed difference of the foreground's probability, in voxels a crop."""


def divergence(request: PaperRequest, data: str) -> Drawn:
    """Train each framework and read from its log how far its two networks were apart."""
    preset = preset_for(request, data, OWN)
    runs = [
        FigureRun(title, preset, (f"method.name={method}",)) for title, method in FRAMEWORKS.items()
    ]
    found: dict[str, list[Stage]] = defaultdict(list)
    for run, _, folder in trained_runs(request, data, runs):
        log = read_log(RunFolder(folder).log_file)
        found[run.title] += stages(log, RunFolder(folder).config().training.length)
    curves = {title: over_runs(each) for title, each in found.items()}
    published = stated("divergence", published_data(data, OWN))
    rows = [_row(title, stage, published) for title in curves for stage in curves[title]]
    figure = draw_divergence({title: _series(curve) for title, curve in curves.items()})
    notes = (
        f"means over {STAGES} equal parts of the training, of the unlabelled crops; "
        "overlap ratio in percent of the voxels, distance in voxels a crop",
        *figure_notes(request, data, OWN),
    )
    return Drawn(figure, rows, notes)


def stages(log: Sequence[StepRecord], steps: int) -> list[Stage]:
    """The parts of a run that have steps with a measurement."""
    parts: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for record in log:
        agreement, distance = record.health.agreement, record.health.distance
        if agreement is not None and distance is not None:
            parts[record.step * STAGES // steps + 1].append((agreement, distance))
    if not parts:
        raise UserError("the log has no measurement of two networks; delete the run and train anew")
    return [
        Stage(
            number,
            fmean(agreement for agreement, _ in part),
            fmean(distance for _, distance in part),
        )
        for number, part in sorted(parts.items())
    ]


def over_runs(found: Iterable[Stage]) -> list[Stage]:
    """One mean a stage of the stages of several runs."""
    alike: dict[int, list[Stage]] = defaultdict(list)
    for stage in found:
        alike[stage.number].append(stage)
    return [
        Stage(
            number,
            fmean(stage.overlap_ratio for stage in each),
            fmean(stage.distance for stage in each),
        )
        for number, each in sorted(alike.items())
    ]


def _row(title: str, stage: Stage, published: dict[tuple[str, str], float]) -> Row:
    late = published if stage.number == LATE else {}
    return {
        "framework": title,
        "stage": stage.number,
        "overlap_ratio": 100 * stage.overlap_ratio,
        "distance": stage.distance,
        "published_overlap_ratio": late.get((title, "late_overlap_ratio_percent")),
        "published_distance": late.get((title, "late_distance_voxels")),
    }


def _series(curve: Sequence[Stage]) -> DivergenceSeries:
    return DivergenceSeries(
        [stage.number / STAGES for stage in curve],
        [stage.overlap_ratio for stage in curve],
        [stage.distance for stage in curve],
    )
