"""`tracoco compare`: evaluated runs side by side."""

from pathlib import Path
from typing import Annotated

import typer

from tracoco.cli.app import AsJson, app
from tracoco.console import print_json, print_table


@app.command()
def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders.")],
    as_json: AsJson = False,
) -> None:
    """Compare the scores of evaluated runs in one table.

    Example: tracoco compare heart/runs/*
    """
    from tracoco.api.runs import compare as compare_runs
    from tracoco.reporting.tables import comparison_table

    rows = compare_runs(runs)
    if as_json:
        print_json({"rows": [row.to_json() for row in rows]})
    else:
        print_table(comparison_table(rows))
