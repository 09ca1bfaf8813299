"""`tracoco report`: one HTML page about a run or a project."""

from pathlib import Path
from typing import Annotated

import typer

from tracoco.cli.app import app


@app.command()
def report(
    run: Annotated[
        Path, typer.Argument(metavar="RUN|PROJECT", help="Run folder, or project folder.")
    ],
    scores: Annotated[
        list[Path] | None, typer.Option(help="Further scores.json, from outside RUN/predictions.")
    ] = None,
) -> None:
    """Write one HTML page about a run, or about a project.

    That of a run has settings, curves, statistics of the pseudo-labels, scores per case, and
    pictures. That of a project has all runs with 95 % intervals beside supervised learning, all
    cases and the rounds of labelling, with CSV files beside it.

    Example: tracoco report heart/runs/tracoco-seed0
    """
    from tracoco.api.runs import report as write_report

    print(write_report(run, scores or ()))
