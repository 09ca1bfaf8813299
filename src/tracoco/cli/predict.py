"""`tracoco predict`: segment scans with a trained run."""

from pathlib import Path
from typing import Annotated

import typer

from tracoco.cli.app import (
    CheckpointName,
    Device,
    RunArgument,
    WeightsKind,
    app,
)


@app.command()
def predict(
    run: RunArgument,
    source: Annotated[
        Path, typer.Argument(metavar="IN", help="Scan, folder of scans, or project.")
    ],
    out: Annotated[
        Path, typer.Argument(metavar="OUT", help="Output folder, or file for one scan.")
    ],
    checkpoint: CheckpointName = "last",
    weights: WeightsKind = "averaged",
    save: Annotated[
        str, typer.Option(help="Comma-separated: label,probability,disagreement,entropy.")
    ] = "label",
    dicom_seg: Annotated[
        bool, typer.Option("--dicom-seg", help="Also write DICOM segmentations of DICOM series.")
    ] = False,
    cct: Annotated[
        bool, typer.Option("--cct", help="Remove components below 1/1500 of the scan.")
    ] = False,
    shard: Annotated[
        str | None,
        typer.Option(metavar="K/N", help="Predict only the K-th of N parts of the scans."),
    ] = None,
    redo: Annotated[
        bool, typer.Option("--redo", help="Predict again what is there already.")
    ] = False,
    device: Device = "auto",
) -> None:
    """Segment scans, each on its own grid.

    IN is a file, a DICOM series in a folder or zip, or a folder of scans. Pass a project folder to
    predict its test set. Folders of HDF5 files (CASE/mri_norm2.h5) work too. If interrupted, run
    the same command again: cases that the same weights have predicted are skipped.

    Example: tracoco predict heart/runs/tracoco-seed0 new_scans labels --save label,entropy
    """
    from tracoco.api.runs import predict as predict_scans
    from tracoco.inference.maps import wanted_maps
    from tracoco.inference.predict import parse_shard
    from tracoco.runs.folder import RunFolder

    cases = predict_scans(
        run,
        source,
        out,
        checkpoint=checkpoint,
        weights=weights,
        cct=cct,
        maps=wanted_maps(save),
        dicom_seg=dicom_seg,
        shard=parse_shard(shard) if shard else None,
        redo=redo,
        device=device,
    )
    print(f"{len(cases)} predictions in {out}")
    watermark = RunFolder(run).watermark(checkpoint)
    if watermark:
        print(watermark)
    print(f"next: tracoco evaluate {out} TRUTH")
