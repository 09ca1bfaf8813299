"""The figures of TraCoCo against supervised learning, by the number of labels."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tracoco.studies.benchmark.results import RunResult, over_seeds
from tracoco.studies.paper.case_lists import labelled_cases
from tracoco.studies.paper.figure import Drawn, Row
from tracoco.studies.paper.figures.figure_settings import (
    COUNTS,
    FigureRun,
    figure_notes,
    preset_for,
    result_notes,
    runner_of,
    tested_runs,
)
from tracoco.studies.paper.figures.result_drawings import LabelPoint, by_label_count
from tracoco.studies.paper.published import published, published_figure
from tracoco.studies.paper.request import PaperRequest

OWN = "la-8"
FEWEST = 2
GAIN, DICE = "dice_gain_over_supervised_percent", "dice_percent"


@dataclass(frozen=True, slots=True)
class LabelRun:
    """A method with so many labels."""

    method: str
    count: int
    """As the paper counts them: patients for ACDC."""
    labelled: int
    """Scans."""
    run: FigureRun


def label_counts(request: PaperRequest, data: str) -> Drawn:
    """Both methods by the number of labels; with all of them supervised learning alone."""
    runs = label_runs(request, data)
    # The figure itself says how many labels: --labelled is only where it begins.
    found = tested_runs(replace(request, labelled=None), data, [each.run for each in runs])
    results = dict(zip(runs, found, strict=True))
    rows = [_row(each, results, data) for each in runs]
    name = runner_of(request, data).dataset
    points = [
        LabelPoint(
            name,
            row["labelled"],
            row["method"],
            row["dice"],
            row["dice_sd"],
            row["hd95"],
            row["hd95_sd"],
        )
        for row in rows
        if row["dice"] is not None
    ]
    notes = (
        "gain: Dice of tracoco less that of supervised, in points; HD95 is in voxels",
        *figure_notes(request, data, OWN),
        *result_notes([result for each in found for result in each]),
    )
    return Drawn(by_label_count(points), rows, notes)


def label_runs(request: PaperRequest, data: str) -> list[LabelRun]:
    """The paper's numbers where its own settings are asked for, else those the project allows."""
    if data in COUNTS and not (request.preset or request.labelled):
        presets = {count: (f"{data}-{count}", "") for count in COUNTS[data]}
        labelled = {count: labelled_cases(data, count) for count in presets}
    else:
        total = len(runner_of(request, data).project.load_splits().labelled)
        counts = doubled_counts(request.labelled or FEWEST, total)
        base = preset_for(request, data, OWN)
        presets = {count: (base, f"data.labelled={count}") for count in counts}
        labelled = {count: count for count in counts}
    return [
        LabelRun(
            method,
            count,
            labelled[count],
            FigureRun(
                f"{method} with {labelled[count]} labels",
                preset,
                (f"method.name={method}", *filter(None, [change])),
            ),
        )
        for count, (preset, change) in presets.items()
        for method in ("supervised", "tracoco")
        if method == "supervised" or count < max(presets)
    ]


def doubled_counts(first: int, total: int) -> list[int]:
    """`first`, twice as many and so on below `total`, then `total`."""
    counts = []
    while first < total:
        counts.append(first)
        first *= 2
    return [*counts, total]


def _row(own: LabelRun, results: Mapping[LabelRun, tuple[RunResult, ...]], data: str) -> Row:
    dice, hd95 = (over_seeds(results[own], figure) for figure in ("dice", "hd95"))
    beside = next(run for run in results if run.count == own.count and run.method == "supervised")
    base = over_seeds(results[beside], "dice")
    return {
        "labelled": own.labelled,
        "method": own.method,
        "dice": dice and dice.mean,
        "dice_sd": dice and dice.sd,
        "hd95": hd95 and hd95.mean,
        "hd95_sd": hd95 and hd95.sd,
        "gain": dice.mean - base.mean if own != beside and dice and base else None,
        "published_dice": _published_dice(own, data),
        "published_gain": _stated(own, data, GAIN),
    }


def _published_dice(own: LabelRun, data: str) -> float | None:
    """From the text, or from the data set's table of results of the last checkpoint."""
    stated = _stated(own, data, DICE)
    if stated is not None or data not in COUNTS:
        return stated
    rows = [row for row in published(data) if not (row.best or row.cct or row.multiscale)]
    return next((r.dice for r in rows if (r.method, r.labelled) == (own.method, own.count)), None)


def _stated(own: LabelRun, data: str, quantity: str) -> float | None:
    wanted = (data, own.count, own.method, quantity)
    return next(
        (
            point.value
            for point in published_figure("supervised-by-labels")
            if (point.dataset, point.labelled, point.series, point.quantity) == wanted
        ),
        None,
    )
