"""`tracoco evaluate`: score predictions against reference labels."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from tracoco.cli.app import AsJson, app
from tracoco.console import print_json, print_table

Units = Literal["mm", "voxel"]
Empty = Literal["missed", "zero"]
Named = Literal["paper"]


@app.command()
def evaluate(
    prediction: Annotated[
        Path, typer.Argument(metavar="PRED", help="Predicted labels: a file or folder.")
    ],
    truth: Annotated[
        Path, typer.Argument(metavar="TRUTH", help="Reference labels: file, folder, or project.")
    ],
    units: Annotated[Units | None, typer.Option(help="Unit of distances. Default: mm.")] = None,
    empty: Annotated[
        Empty | None,
        typer.Option(
            help="Distance of a missed structure. missed: none (default); zero: 0, as in papers."
        ),
    ] = None,
    protocol: Annotated[
        Named | None, typer.Option(help="paper: same as --units voxel --empty zero.")
    ] = None,
    cct: Annotated[
        bool, typer.Option("--cct", help="Remove components below 1/1500 of the scan first.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Score predictions against reference labels.

    Dice and Jaccard are overlaps in percent. ASD is the average distance from the predicted to the
    true surface, and HD95 the 95th percentile of the distances between both surfaces. Structures
    without any predicted voxel are counted as missed: their Dice is 0, and they have no distance.
    Each score is the mean over the structures of a case, then over the cases.

    The scores are saved beside the predictions as scores.json. Pass a project folder as TRUTH to
    use its test set.

    Example: tracoco evaluate heart/runs/tracoco-seed0/predictions/test true_labels
    """
    from tracoco.api.runs import evaluate as evaluate_predictions
    from tracoco.reporting.tables import score_table

    result = evaluate_predictions(
        prediction, truth, units=units, empty=empty, protocol=protocol, cct=cct
    )
    if as_json:
        print_json(result.to_json())
    else:
        print_table(score_table(result))
