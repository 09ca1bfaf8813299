"""`tracoco compare` and `tracoco cross-validate`: evaluated runs side by side, or as one."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from tracoco.cli.app import AsJson, CheckpointName, Device, ProjectFolder, app
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


@app.command(name="cross-validate")
def cross_validate(
    project: ProjectFolder,
    runs: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[RUN...]", help="Runs of --fold, one for each. Default: all of the project."
        ),
    ] = None,
    checkpoint: CheckpointName = "last",
    protocol: Annotated[
        Literal["paper"] | None,
        typer.Option(help="paper: distances in voxels, and 0 for missed structures."),
    ] = None,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Score every labelled case with the run that held it out.

    Each run of `tracoco train --fold` predicts the cases of its fold, if it has not done so yet;
    one table then has a row for each fold, and one for all cases. Test cases are not touched. Folds
    without a run are named in a warning.

    Example: tracoco cross-validate heart heart/runs/tracoco-seed0-fold*
    """
    from tracoco.api.studies import cross_validate as score_folds
    from tracoco.reporting.cross_validation import fold_table

    found = score_folds(
        project,
        runs or (),
        checkpoint=checkpoint,
        protocol=protocol,
        device=device,
        progress=not as_json,
    )
    if as_json:
        print_json(found.to_json())
    else:
        print_table(fold_table(found))
