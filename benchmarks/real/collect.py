"""One committed file per grid, out of the small files that its runs have written.

    python -m benchmarks.real.collect OUT

Workers write one file per run to `OUT/results/GRID`, so that two that end at once cannot disturb
each other. This command merges them into `benchmarks/real/results/GRID.json`, one line per run, and
may be used at any time. `unpack` goes the other way: on another machine, or with an empty OUT, runs
whose results are committed are not trained again, and neither are those that another grid has.
"""

import argparse
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tracoco.console import say
from tracoco.errors import UserError
from tracoco.files import read_json, write_text
from tracoco.studies.benchmark.grid import GridRun, grid_runs, read_grid
from tracoco.studies.benchmark.results import Results, RunResult, kept_result

ROOT = Path(__file__).parent
"""The folder of the grids."""
FAILED = "failed.yaml"
"""Runs that ended without a result: `GRID: {RUN: what happened}`."""
DIGITS = 5
"""Decimals of the committed figures."""
Values = dict[str, Any]
"""A result as a run has written it: figures, and the names of its row and its folder."""


def grid_paths(root: Path) -> list[Path]:
    """The grids of a folder in the order of their names."""
    found = sorted(root.glob("*.yaml"), key=lambda path: path.stem)
    return [path for path in found if path.name != FAILED]


def committed_file(root: Path, name: str) -> Path:
    """Where the results of a grid are committed."""
    return root / "results" / f"{name}.json"


def working_results(out: Path, name: str) -> Results:
    """Where the runs of a grid write their results."""
    return Results(out / "results" / name)


def read_committed(path: Path) -> dict[str, Values]:
    """The results of a grid by the names of their runs; none without the file."""
    if not path.exists():
        return {}
    values = read_json(path)
    if not isinstance(values, dict) or not isinstance(values.get("runs"), dict):
        raise UserError(f"{path} has no runs; restore it")
    runs: dict[str, Values] = values["runs"]
    return runs


def committed_results(root: Path) -> list[tuple[str, RunResult]]:
    """All results of a folder of grids, each with the name of its run's folder."""
    files = sorted((root / "results").glob("*.json"))
    return [kept_result(each, file) for file in files for each in read_committed(file).values()]


def write_committed(path: Path, runs: Mapping[str, Values]) -> None:
    """Replace a grid's file at once; a line per run keeps changes readable."""
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(_rounded(v))}" for name, v in runs.items())
    write_text(path, f'{{"runs": {{\n{lines}\n}}}}\n')


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    return round(value, DIGITS) if isinstance(value, float) else value


def collect(grid: Path, out: Path) -> int:
    """Merge what the runs of a grid have written into its committed file.

    A result in OUT replaces the committed one of the same run. What is committed and is not in OUT
    stays, also where the grid no longer has the run: the page complains about that.

    Returns:
        How many results are new or have changed.
    """
    path, working = committed_file(grid.parent, grid.stem), working_results(out, grid.stem)
    before = read_committed(path)
    names = [run.name for run in grid_runs(read_grid(grid))]
    found = {name: working.root / f"{name}.json" for name in names}
    now = {name: _rounded(read_json(file)) for name, file in found.items() if file.exists()}
    merged = before | now
    ordered = {name: merged[name] for name in dict.fromkeys([*names, *before]) if name in merged}
    if ordered != before:
        write_committed(path, ordered)
    return sum(before.get(name) != values for name, values in now.items())


def unpack(
    grid: str, runs: Iterable[tuple[GridRun, Path]], known: Mapping[str, RunResult], out: Path
) -> int:
    """Write results that are known already to where the runs of a grid would write them.

    Args:
        grid: its name.
        runs: each with its folder, whose name changes with every setting and every scan.
        known: results by the names of such folders.
        out: the folder of the projects.

    Returns:
        How many were written.
    """
    working, written = working_results(out, grid), 0
    for run, folder in runs:
        if folder.name in known and working.find(run, folder) is None:
            working.keep(run, folder, known[folder.name])
            written += 1
    return written


def convert(folder: Path) -> Path:
    """Replace a folder of results, one file per run, by the one file of its grid."""
    runs = {file.stem: read_json(file) for file in sorted(folder.glob("*.json"))}
    path = folder.with_suffix(".json")
    write_committed(path, runs)
    return path


def main() -> None:
    """Collect the results of all grids."""
    parser = argparse.ArgumentParser(description="Collect results into one file per grid.")
    parser.add_argument("out", type=Path, help="folder of the projects and of their results")
    out: Path = parser.parse_args().out
    for grid in grid_paths(ROOT):
        if changed := collect(grid, out):
            say(f"{grid.stem}: {changed} new or changed results")


if __name__ == "__main__":
    main()
