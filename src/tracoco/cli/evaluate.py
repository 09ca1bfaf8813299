"""`tracoco evaluate`: score predictions against reference labels."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from tracoco.cli.app import (
    AsJson,
    app,
)
from tracoco.console import print_json, print_table

Units = Literal["mm", "voxel"]


Empty = Literal["missed", "zero"]


Named = Literal["paper"]


@app.command()
def evaluate(
    prediction: Annotated[Path, typer.Argument(metavar="PRED", help="A label file or folder.")],
    truth: Annotated[Path, typer.Argument(metavar="TRUTH", help="File, folder, or project.")],
    units: Annotated[Units | None, typer.Option(help="Of distances; mm if not given.")] = None,
    empty: Annotated[
        Empty | None, typer.Option(help="Empty masks: counted as missed if not given, or 0.")
    ] = None,
    protocol: Annotated[
        Named | None, typer.Option(help="paper: --units voxel --empty zero.")
    ] = None,
    cct: Annotated[
        bool, typer.Option("--cct", help="Remove components below 1/1500 of the scan first.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Score predictions against the truth.

    The scores stay beside the predictions, as scores.json. A project in place of TRUTH stands
    for its test cases.

    Example: tracoco evaluate heart/runs/tracoco-seed0/predictions/test true_labels
    """
    from tracoco.api.runs import evaluate as evaluate_predictions
    from tracoco.reporting.compare import score_table

    result = evaluate_predictions(
        prediction, truth, units=units, empty=empty, protocol=protocol, cct=cct
    )
    if as_json:
        print_json(result)
    else:
        print_table(score_table(result))
