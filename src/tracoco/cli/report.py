"""`tracoco report`: one HTML page about a run."""

from pathlib import Path
from typing import Annotated

import typer

from tracoco.cli.app import RunArgument, app


@app.command()
def report(
    run: RunArgument,
    scores: Annotated[
        list[Path] | None, typer.Option(help="Further scores.json, from outside RUN/predictions.")
    ] = None,
) -> None:
    """Write one HTML page about a run.

    It has settings, curves, statistics of the pseudo-labels, scores per case, and pictures.

    Example: tracoco report heart/runs/tracoco-seed0
    """
    from tracoco.api.runs import report as write_report

    print(write_report(run, scores or ()))
