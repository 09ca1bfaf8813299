"""What every figure needs before it can be drawn: settings, runs, and what must be said of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tracoco.console import say
from tracoco.errors import UserError
from tracoco.studies.benchmark.results import RunResult
from tracoco.studies.benchmark.runner import Runner
from tracoco.studies.paper.published import published_figure
from tracoco.studies.paper.request import PaperRequest, is_the_papers

COUNTS = {
    "la": (8, 16, 32, 80),
    "pancreas": (6, 12, 24, 62),
    "brats19": (25, 50, 125, 250),
    "acdc": (3, 7, 14, 70),
}
"""Labels in the paper's experiments, and all that there are; equal places stand for each other."""


@dataclass(frozen=True, slots=True)
class FigureRun:
    """One run of a figure; the request's own choices come on top of it."""

    title: str
    preset: str
    changes: tuple[str, ...]


def runner_of(request: PaperRequest, data: str) -> Runner:
    """What trains and tests on the figure's project."""
    runner = request.runner(data)
    if runner is None:
        raise UserError(f"no project for {data}; give --project {data}=FOLDER")
    return runner


def preset_for(request: PaperRequest, data: str, own: str) -> str:
    """The request's preset, else the paper's: for other data the one with as few labels.

    Args:
        request: may name a preset.
        data: what the request calls the project; "" stands in for the paper's data set.
        own: the preset of the paper's figure, `DATASET-LABELS`.
    """
    dataset, _, count = own.partition("-")
    if request.preset or data in ("", dataset):
        return request.preset or own
    if data not in COUNTS:
        raise UserError(f"the paper has no settings for a figure of {data}; name some by --preset")
    return f"{data}-{COUNTS[data][COUNTS[dataset].index(int(count))]}"


def trained_runs(
    request: PaperRequest, data: str, runs: Sequence[FigureRun]
) -> Iterator[tuple[FigureRun, int, Path]]:
    """Each run with each seed and its folder, brought to its end one after the other."""
    runner = runner_of(request, data)
    for run, seed in _announced(request, runs):
        yield run, seed, runner.trained(request.spec(run.preset, run.changes), seed)


def tested_runs(
    request: PaperRequest, data: str, runs: Sequence[FigureRun]
) -> list[tuple[RunResult, ...]]:
    """The results of each run, one a seed, by the paper's conventions."""
    runner, scoring = runner_of(request, data), request.scoring("last")
    found: dict[FigureRun, list[RunResult]] = {run: [] for run in runs}
    for run, seed in _announced(request, runs):
        spec = request.spec(run.preset, run.changes)
        found[run].append(runner.result(spec, seed, scoring))
    return [tuple(found[run]) for run in runs]


def figure_notes(request: PaperRequest, data: str, own: str) -> tuple[str, ...]:
    """Whether published numbers compare with ours, and where ours come from."""
    runner = runner_of(request, data)
    dataset = published_data(data, own)
    name = runner.project.root.name
    notes = []
    if not is_the_papers(runner.project, dataset):
        notes.append(
            f"drawn from '{name}', not from the paper's {dataset}: not to be compared "
            "with published numbers"
        )
    elif request.preset or request.labelled or request.changes:
        notes.append("settings were changed: published numbers are of the paper's own")
    seeds = "seed 0" if request.seeds == 1 else f"seeds 0 to {request.seeds - 1}, their mean"
    return (*notes, f"{seeds}; runs: {runner.root}")


def published_data(data: str, own: str) -> str:
    """The data set whose published numbers stand beside ours: a stand-in's are the figure's."""
    return data or own.partition("-")[0]


def stated(figure: str, dataset: str) -> dict[tuple[str, str], float]:
    """What the paper's text says about a figure of a data set, by series and quantity."""
    return {
        (point.series, point.quantity): point.value
        for point in published_figure(figure)
        if point.dataset == dataset
    }


def result_notes(results: Sequence[RunResult]) -> tuple[str, ...]:
    """What must be said of scores by the paper's protocol."""
    marks = dict.fromkeys(result.watermark for result in results if result.watermark)
    missed = sum(result.missed for result in results)
    lost = f"{missed} structures missed, which the paper's protocol counts as distance 0"
    return (*marks, *([lost] if missed else []))


def _announced(request: PaperRequest, runs: Sequence[FigureRun]) -> Iterator[tuple[FigureRun, int]]:
    pairs = [(run, seed) for run in runs for seed in range(request.seeds)]
    for done, (run, seed) in enumerate(pairs, start=1):
        say(f"{done} of {len(pairs)}: {run.title}, seed {seed}")
        yield run, seed
