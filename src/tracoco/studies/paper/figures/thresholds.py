"""The figure of the two thresholds of CRC, Eq. (8): each changes while the other stays."""

from tracoco.studies.benchmark.results import over_seeds
from tracoco.studies.paper.figure import Drawn, Row
from tracoco.studies.paper.figures.figure_settings import (
    FigureRun,
    figure_notes,
    preset_for,
    published_data,
    result_notes,
    runner_of,
    stated,
    tested_runs,
)
from tracoco.studies.paper.figures.result_drawings import ThresholdPoint, threshold_curves
from tracoco.studies.paper.request import PaperRequest

OWN = "brats19-50"
GAMMA, BETA = 0.65, 0.1
"""What the paper settles on."""
SETTINGS = [("gamma", gamma, gamma, BETA) for gamma in (0.3, 0.5, 0.65, 0.8, 0.95)] + [
    ("beta", beta, GAMMA, beta) for beta in (0.0, 0.05, 0.1, 0.2, 0.3)
]
"""Which threshold changes and its value, then gamma and beta of the run."""


def thresholds(request: PaperRequest, data: str) -> Drawn:
    """Dice by gamma, then by beta; where both curves meet the run is the same."""
    preset = preset_for(request, data, OWN)
    runs = [
        FigureRun(
            f"{name} {value}",
            preset,
            ("method.name=tracoco", f"method.gamma={gamma}", f"method.beta={beta}"),
        )
        for name, value, gamma, beta in SETTINGS
    ]
    results = tested_runs(request, data, runs)
    published = _published(published_data(data, OWN))
    rows: list[Row] = []
    for (name, value, *_), found in zip(SETTINGS, results, strict=True):
        dice = over_seeds(found, "dice")
        rows.append(
            {
                "threshold": name,
                "value": value,
                "dice": dice and dice.mean,
                "dice_sd": dice and dice.sd,
                "published": published.get((name, value)),
            }
        )
    # A stand-in has other heights, and the published ones would flatten its curves.
    shown = published if data else {}
    figure = threshold_curves(
        *(_ours(rows, name) for name in ("gamma", "beta")),
        *(_points(shown, name) for name in ("gamma", "beta")),
    )
    notes = (
        *figure_notes(request, data, OWN),
        *_without_effect(request, data),
        *result_notes([result for each in results for result in each]),
    )
    return Drawn(figure, rows, notes)


def _published(dataset: str) -> dict[tuple[str, float], float]:
    series = {
        tuple(name.split("=")): dice for (name, _), dice in stated("thresholds", dataset).items()
    }
    return {(name, float(value)): dice for (name, value), dice in series.items()}


def _ours(rows: list[Row], name: str) -> list[ThresholdPoint]:
    return [
        ThresholdPoint(row["value"], row["dice"], row["dice_sd"])
        for row in rows
        if row["threshold"] == name and row["dice"] is not None
    ]


def _points(values: dict[tuple[str, float], float], name: str) -> list[ThresholdPoint]:
    return [ThresholdPoint(value, dice) for (which, value), dice in values.items() if which == name]


def _without_effect(request: PaperRequest, data: str) -> tuple[str, ...]:
    if runner_of(request, data).project.load_plan().classes > 2:
        return ()
    return (
        "with two classes the larger probability is never below 0.5: gamma 0.3 and 0.5 are the "
        "same training",
    )
