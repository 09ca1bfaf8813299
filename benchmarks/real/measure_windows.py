"""Measure the Dice of a grid's runs by the overlap of their windows, and keep it for the page.

`python -m benchmarks.real.measure_windows GRID PROJECT`; only runs that are trained are measured.
"""

import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from statistics import fmean

from benchmarks.real.measured import keep, trained_runs
from benchmarks.real.windows import KIND, Windows
from tracoco.config import InferenceConfig
from tracoco.console import say
from tracoco.evaluation.validation import mean_dice
from tracoco.geometry import Size
from tracoco.inference.predictor import Predictor
from tracoco.inference.sliding_window import window_places
from tracoco.project.folder import Project
from tracoco.project.store import Store, StoredCase
from tracoco.studies.benchmark.grid import GridRun

ROOT = Path(__file__).parent
OVERLAPS = (0.0, 0.25, 0.5, 0.75)


def measure(root: Path, name: str, project: Path) -> Path:
    """Measure the trained runs of a grid with one data set, and keep their figures."""
    store, splits = Store(Project(project).store_root), Project(project).load_splits()
    cases = [store.case(id_) for id_ in splits.test]
    found = [
        asdict(each)
        for run, folder in trained_runs(root / f"{name}.yaml", project)
        for each in _of_run(run, folder, cases)
    ]
    return keep(root, KIND, name, found)


def _of_run(run: GridRun, folder: Path, cases: list[StoredCase]) -> Iterator[Windows]:
    predictor = Predictor.load(folder)
    window = predictor.window
    for overlap in OVERLAPS:
        changes = {"window": "crop", "overlap": overlap, "stride": None}
        config = predictor.config.model_copy(update=changes)
        dice = {
            case.id: 100 * mean_dice(predictor.method, [case], window, config, predictor.device)
            for case in cases
        }
        counts = [_windows(case, window, config) for case in cases]
        found = Windows(run.row, run.labelled, run.seed, overlap, fmean(counts), dice)
        say(f"{run.name}, overlap {overlap:g}: Dice {found.dice:.1f} %")
        yield found


def _windows(case: StoredCase, window: Size, config: InferenceConfig) -> int:
    """How many a scan takes; one that is smaller than a window is padded to its size."""
    padded = tuple(map(max, case.shape, window))
    return len(window_places(padded, window, config))


if __name__ == "__main__":
    measure(ROOT, sys.argv[1], Path(sys.argv[2]))
