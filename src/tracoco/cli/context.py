"""`tracoco context`: how much predictions depend on the surroundings of a voxel."""

from pathlib import Path
from typing import Annotated

import typer

from tracoco.cli.app import AsJson, CheckpointName, Device, RunArgument, Seed, WeightsKind, app
from tracoco.console import print_json, print_table


@app.command()
def context(
    run: RunArgument,
    data: Annotated[
        Path, typer.Argument(metavar="DATA", help="Scan, folder of scans, or project.")
    ],
    shifts: Annotated[int, typer.Option(min=1, help="Pairs of crops per scan.")] = 20,
    checkpoint: CheckpointName = "last",
    weights: WeightsKind = "averaged",
    seed: Seed = 0,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Measure how much predictions depend on the surroundings of a voxel.

    Predicts pairs of shifted crops and compares both predictions inside their overlap. Pass a
    project folder as DATA to use its test set. The result is saved in the run as context.json.

    Example: tracoco context heart/runs/tracoco-seed0 heart
    """
    from tracoco.api.studies import context as measure_context
    from tracoco.reporting.tables import context_table

    result = measure_context(
        run,
        data,
        shifts=shifts,
        checkpoint=checkpoint,
        weights=weights,
        seed=seed,
        device=device,
    )
    if as_json:
        print_json(result.to_json())
    else:
        print_table(context_table(result))
        print(f"next: tracoco report {run}")
