"""Measure what the trained runs of a grid owe to the surroundings of a voxel.

    python -m benchmarks.real.measure_context GRID PROJECT

Measured are the rows `supervised`, `cps`, `tracoco` and `supervised-all`, as far as they are
trained. What was measured of a run is not measured again.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean

from rich.console import Console

from benchmarks.real.context import ROWS, SHIFTS, WINDOWS, Surroundings, Windows
from benchmarks.real.measured import keep, measured_folders, trained_runs
from tracoco.config import InferenceConfig
from tracoco.console import say
from tracoco.evaluation.context_sensitivity import ContextChoice, measure_context
from tracoco.evaluation.validation import mean_dice
from tracoco.inference.predictor import Predictor
from tracoco.inference.sliding_window import chosen_cover
from tracoco.inference.windows import window_places
from tracoco.project.folder import Project
from tracoco.project.store import Store, StoredCase
from tracoco.studies.benchmark.grid import GridRun

ROOT = Path(__file__).parent
OVERLAPS = (0.0, 0.25, 0.5, 0.75)
CHOICE = ContextChoice()
WHOLE: Mapping[str, object] = {"window": "auto", "overlap": 0.5, "stride": None, "memory_gb": 1e3}
"""Settings by which a window is as large as the scan, for networks that can have such windows."""


def measure(root: Path, name: str, project: Path, console: Console | None = None) -> None:
    """Measure the trained runs of a grid with one data set, and keep the figures after each."""
    store, splits = Store(Project(project).store_root), Project(project).load_splits()
    cases = [store.case(id_) for id_ in splits.test]
    shifts, windows = (measured_folders(root, kind, name) for kind in (SHIFTS, WINDOWS))
    for run, folder in trained_runs(root / f"{name}.yaml", project):
        if run.row not in ROWS:
            continue
        if folder.name not in shifts:
            keep(root, SHIFTS, name, [asdict(_shifts(run, folder, project, console))])
        if folder.name not in windows:
            keep(root, WINDOWS, name, [asdict(each) for each in _windows(run, folder, cases)])


def _shifts(run: GridRun, folder: Path, project: Path, console: Console | None) -> Surroundings:
    measured = measure_context(folder, project, CHOICE, console=console)
    return Surroundings(
        run.row,
        run.labelled,
        run.seed,
        folder.name,
        measured.shifts,
        measured.summary.divergence,
        # A case no larger than a crop has no two crops; without a prediction nothing compares.
        {row.scan: row.disagreement for row in measured.rows if row.disagreement is not None},
    )


def _windows(run: GridRun, folder: Path, cases: Sequence[StoredCase]) -> Iterator[Windows]:
    predictor = Predictor.load(folder)
    for cover in (*OVERLAPS, None):
        changes = WHOLE if cover is None else {"window": "crop", "overlap": cover, "stride": None}
        config = predictor.config.model_copy(update=dict(changes))
        if cover is None and not _covers_all(predictor, cases, config):
            continue
        dice = {
            case.id: 100
            * mean_dice(predictor.method, [case], predictor.window, config, predictor.device)
            for case in cases
        }
        counts = [_count(predictor, case, config) for case in cases]
        found = Windows(run.row, run.labelled, run.seed, folder.name, cover, fmean(counts), dice)
        named = "whole scan" if cover is None else f"overlap {cover:g}"
        say(f"{run.name}, {named}: Dice {found.dice:.1f} %")
        yield found


def _count(predictor: Predictor, case: StoredCase, config: InferenceConfig) -> int:
    """How many windows a scan takes; one that is smaller than a window is padded to its size."""
    cover = chosen_cover(predictor.method, case.shape, predictor.window, config)
    padded = tuple(map(max, case.shape, cover.window))
    return len(window_places(padded, *cover[:2]))


def _covers_all(predictor: Predictor, cases: Sequence[StoredCase], config: InferenceConfig) -> bool:
    """Whether the network can see every scan in one window."""
    return all(_count(predictor, case, config) == 1 for case in cases)


if __name__ == "__main__":
    measure(ROOT, sys.argv[1], Path(sys.argv[2]), Console())
