"""`tracoco export`: write the network of a run for other programs."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from tracoco.cli.app import AsJson, CheckpointName, RunArgument, WeightsKind, app
from tracoco.console import print_json

Format = Literal["pt2", "onnx", "torchscript", "monai-bundle"]


@app.command()
def export(
    run: RunArgument,
    format_: Annotated[
        Format, typer.Option("--format", help="onnx, pt2, torchscript or monai-bundle.")
    ] = "onnx",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="File or folder. Default: in RUN/export.")
    ] = None,
    scan: Annotated[
        Path | None,
        typer.Option(help="Scan for the check. Default: one of the project of the run."),
    ] = None,
    checkpoint: CheckpointName = "last",
    weights: WeightsKind = "averaged",
    as_json: AsJson = False,
) -> None:
    """Export the network of a run, with all that is needed to use it.

    The file is kept only if it predicts what the run predicts, on a crop and on a whole scan.
    NAME.json beside it says how scans are prepared, and how far the two are apart. An ONNX file
    predicts without torch: tracoco predict MODEL.onnx IN OUT.

    Example: tracoco export heart/runs/tracoco-seed0 --format onnx
    """
    from tracoco.api.deploy import export as export_model

    found = export_model(
        run, format=format_, out=out, scan=scan, checkpoint=checkpoint, weights=weights
    )
    if as_json:
        print_json(found.to_json())
        return
    print(f"{found.path} and {found.description_file}")
    print(found.text)
    if format_ == "onnx":
        print(f"next: tracoco predict {found.path} IN OUT")
