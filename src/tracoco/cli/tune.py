"""`tracoco tune`: choose options of a prediction on validation cases."""

from pathlib import Path
from typing import Annotated

import typer

from tracoco.cli.app import AsJson, CheckpointName, Device, RunArgument, WeightsKind, app
from tracoco.console import print_json, print_table


@app.command()
def tune(
    run: RunArgument,
    project: Annotated[
        Path | None, typer.Option(help="Project with the scans. Default: that of the run.")
    ] = None,
    checkpoint: CheckpointName = "last",
    weights: WeightsKind = "averaged",
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Try options of a prediction on the validation cases of a run.

    Tried are both networks, mirrored views, the largest component of each class, and a smallest
    size of components. What gains at least 0.1 points of Dice, and more than noise by a paired t
    test, is recorded in the run. `predict` then uses it and says so; `--plain` leaves it out.

    Example: tracoco tune heart/runs/tracoco-seed0
    """
    from tracoco.api.deploy import tune as tune_run
    from tracoco.reporting.tables import tune_table

    found = tune_run(run, project=project, checkpoint=checkpoint, weights=weights, device=device)
    if as_json:
        print_json(found.to_json())
        return
    print_table(tune_table(found))
    text = found.chosen.text
    print(f"recorded for predict: {text}" if text else "recorded: nothing gains more than noise")
    print(f"next: tracoco predict {run} IN OUT")
