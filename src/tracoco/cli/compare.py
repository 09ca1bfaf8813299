"""`tracoco compare`: evaluated runs side by side."""

from pathlib import Path
from typing import Annotated

import typer

from tracoco.cli.app import AsJson, app
from tracoco.console import print_json, print_table


@app.command()
def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders.")],
    csv: Annotated[
        Path | None,
        typer.Option(help="Also write the runs to this file, and the pairs to NAME-pairs.csv."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare the scores of evaluated runs in one table, and every two of them case by case.

    Example: tracoco compare heart/runs/* --csv runs.csv
    """
    from tracoco.api.runs import compare as compare_runs
    from tracoco.reporting.pairs import pairs_table
    from tracoco.reporting.tables import comparison_table

    found = compare_runs(runs, csv=csv)
    if as_json:
        print_json(found.to_json())
        return
    print_table(comparison_table(found.rows))
    if found.pairs:
        print_table(pairs_table(found.pairs))
