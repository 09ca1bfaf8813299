"""`tracoco report` and `compare`: what came out of runs."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from tracoco.cli.app import AsJson, RunArgument, app
from tracoco.console import print_json, print_table


@app.command()
def report(
    run: RunArgument,
    scores: Annotated[
        list[Path] | None, typer.Option(help="A scores.json that is not in RUN/predictions.")
    ] = None,
) -> None:
    """Write one HTML page about a run.

    Settings, curves, health of the pseudo-labels, cases, pictures.

    Example: tracoco report heart/runs/tracoco-seed0
    """
    from tracoco.report.page import write_report

    print(write_report(run, scores or ()))


@app.command()
def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Runs' folders.")],
    as_json: AsJson = False,
) -> None:
    """Put evaluated runs side by side.

    Example: tracoco compare heart/runs/*
    """
    from tracoco.report.compare import compare_runs
    from tracoco.report.tables import comparison_table

    rows = compare_runs(runs)
    if as_json:
        print_json({"rows": [asdict(row) for row in rows]})
    else:
        print_table(comparison_table(rows))
