"""`tracoco benchmark`: a grid of runs, trained, tested and put into one table."""

from pathlib import Path
from typing import Annotated

import typer

from tracoco.cli.app import AsJson, Device, app
from tracoco.console import print_json, print_table
from tracoco.errors import raise_all


@app.command()
def benchmark(
    grid: Annotated[Path, typer.Argument(metavar="GRID", help="YAML file of the grid.")],
    projects: Annotated[
        list[str],
        typer.Option("--project", metavar="DATASET=FOLDER", help="Project of a data set; repeat."),
    ],
    results: Annotated[
        Path | None,
        typer.Option("--results", "-o", help="Folder for the results. Default: beside the grid."),
    ] = None,
    jobs: Annotated[
        int, typer.Option(min=1, help="Number of runs at a time; they share the cores.")
    ] = 1,
    device: Device = "auto",
    worker: Annotated[bool, typer.Option("--worker", hidden=True)] = False,
    as_json: AsJson = False,
) -> None:
    """Train and test a grid of runs, with one small result file per run.

    If interrupted, run the same command again: finished runs are kept, stopped ones are resumed.
    A run that fails does not stop the others. The same command on several machines with a shared
    disk shares the work.

    Example: tracoco benchmark grid.yaml --project hippocampus=hippocampus --jobs 2
    """
    kept = results or grid.with_suffix("")
    if worker:
        from tracoco.studies.benchmark.command import BenchmarkRequest

        BenchmarkRequest(grid, tuple(projects), kept, jobs, device).work()
        return
    from tracoco.api.studies import benchmark as run_grid

    shown = run_grid(grid, projects, results=kept, jobs=jobs, device=device, progress=not as_json)
    if as_json:
        print_json({"rows": shown.rows})
    else:
        print_table(shown.table)
        print(f"results: {kept}")
    raise_all(shown.problems)
