"""Measure the Dice of a grid's runs on the scans whose labels they did not see, for the page.

`python -m benchmarks.real.measure_unlabelled GRID PROJECT`; only trained runs are measured.
"""

import sys
from dataclasses import asdict
from pathlib import Path

from benchmarks.real.measured import keep, trained_runs
from benchmarks.real.unlabelled import KIND, Unlabelled
from tracoco.benchmark.grid import GridRun
from tracoco.console import say
from tracoco.evaluation.validation import mean_dice
from tracoco.inference.predictor import Predictor
from tracoco.project.folder import Project
from tracoco.project.store import Store
from tracoco.training.run_folder import RunFolder

ROOT = Path(__file__).parent


def measure(root: Path, name: str, project: Path) -> Path:
    """Measure the trained runs of a grid with one data set, and keep their figures."""
    store = Store(Project(project).store_root)
    found = [
        asdict(figures)
        for run, folder in trained_runs(root / f"{name}.yaml", project)
        if (figures := _of_run(run, folder, store))
    ]
    return keep(root, KIND, name, found)


def _of_run(run: GridRun, folder: Path, store: Store) -> Unlabelled | None:
    """The figures of one run; None if no label was hidden from it."""
    hidden = [store.case(id_) for id_ in RunFolder(folder).splits().unlabelled]
    predictor = Predictor.load(folder)
    dice = {
        case.id: 100
        * mean_dice(predictor.method, [case], predictor.window, predictor.config, predictor.device)
        for case in hidden
        if case.class_voxels is not None
    }
    if not dice:
        return None
    found = Unlabelled(run.row, run.labelled, run.seed, dice)
    say(f"{run.name}: Dice {found.dice:.1f} %")
    return found


if __name__ == "__main__":
    measure(ROOT, sys.argv[1], Path(sys.argv[2]))
