"""`tracoco demo`: the whole path on phantom scans."""

from pathlib import Path
from typing import Annotated

import typer

from tracoco.cli.app import AsJson, Device, Seed, app
from tracoco.console import print_json, print_table


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Output folder; it must not exist.")] = Path("demo"),
    seed: Seed = 0,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Run the whole pipeline on synthetic scans, from files to a report.

    It runs init, prepare, train (supervised and tracoco), predict, evaluate and report, as you
    would on your own scans.

    Example: tracoco demo --out demo --seed 1
    """
    from tracoco.api.studies import run_demo
    from tracoco.reporting.tables import comparison_table

    result = run_demo(out, seed=seed, device=device, progress=not as_json)
    if as_json:
        print_json(result.to_json())
        return
    print_table(comparison_table(result.rows))
    for name, path in result.paths.items():
        print(f"{name:24}{path}")
    print(f"{'time':24}{result.seconds:.0f} s")
