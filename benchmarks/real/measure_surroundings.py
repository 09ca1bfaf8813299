"""Measure how much a grid's runs depend on what lies around a voxel, and keep it for the page.

`python -m benchmarks.real.measure_surroundings GRID PROJECT`; only runs that are trained are
measured, and what was measured once is not again.
"""

import sys
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from benchmarks.real.measured import keep, trained_runs
from benchmarks.real.surroundings import KIND, Surroundings
from tracoco.evaluation.context_sensitivity import (
    ContextChoice,
    ContextSensitivity,
    measure_context,
    read_context,
)
from tracoco.studies.benchmark.grid import GridRun

ROOT = Path(__file__).parent
CHOICE = ContextChoice()


def measure(root: Path, name: str, project: Path, console: Console | None = None) -> Path:
    """Measure the trained runs of a grid with one data set, and keep their figures."""
    found = [
        asdict(_of_run(run, folder, project, console))
        for run, folder in trained_runs(root / f"{name}.yaml", project)
    ]
    return keep(root, KIND, name, found)


def _of_run(run: GridRun, folder: Path, project: Path, console: Console | None) -> Surroundings:
    measured = _kept(folder, project) or measure_context(folder, project, CHOICE, console=console)
    return Surroundings(
        run.row,
        run.labelled,
        run.seed,
        measured.shifts,
        measured.summary.divergence,
        # A case no larger than a crop has no two crops; without a prediction nothing compares.
        {row.scan: row.disagreement for row in measured.rows if row.disagreement is not None},
    )


def _kept(folder: Path, project: Path) -> ContextSensitivity | None:
    """What was measured of a run, unless it was on other scans, pairs or weights."""
    found = read_context(folder)
    asked = (str(project.absolute()), "last", CHOICE.shifts, CHOICE.seed)
    if found and (found.source, found.checkpoint, found.shifts, found.seed) == asked:
        return found
    return None


if __name__ == "__main__":
    measure(ROOT, sys.argv[1], Path(sys.argv[2]), Console())
