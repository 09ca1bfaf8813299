"""`tracoco context`, `report` and `compare`: what came out of runs."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from tracoco.cli.app import AsJson, CheckpointName, Device, RunArgument, Seed, WeightsKind, app
from tracoco.console import print_json, print_table, progress_console


@app.command()
def context(
    run: RunArgument,
    data: Annotated[Path, typer.Argument(metavar="DATA", help="Scan, folder, or project.")],
    shifts: Annotated[int, typer.Option(min=1, help="Pairs of crops of each scan.")] = 20,
    checkpoint: CheckpointName = "last",
    weights: WeightsKind = "averaged",
    seed: Seed = 0,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Measure how much answers depend on what surrounds a voxel.

    Predicts pairs of shifted crops and compares the two answers inside their overlap. A project
    in place of DATA stands for its test cases. The figures stay in the run, as context.json.

    Example: tracoco context heart/runs/tracoco-seed0 heart
    """
    from tracoco.evaluation.context_runs import ContextChoice, measure_context
    from tracoco.report.context import context_table

    result = measure_context(
        run,
        data,
        ContextChoice(shifts, seed),
        checkpoint=checkpoint,
        weights=weights,
        device=device,
        console=progress_console(),
    )
    if as_json:
        print_json(result)
    else:
        print_table(context_table(result))
        print(f"next: tracoco report {run}")


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
