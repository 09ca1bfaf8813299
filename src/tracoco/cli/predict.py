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
    source: Annotated[Path, typer.Argument(metavar="IN", help="Scan, folder, or project.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Where the labels go.")],
    checkpoint: CheckpointName = "last",
    weights: WeightsKind = "averaged",
    save: Annotated[
        str, typer.Option(help="Of label,probability,disagreement,entropy, with commas.")
    ] = "label",
    dicom_seg: Annotated[
        bool, typer.Option("--dicom-seg", help="Also write DICOM segmentations of DICOM series.")
    ] = False,
    cct: Annotated[
        bool, typer.Option("--cct", help="Remove components below 1/1500 of the scan.")
    ] = False,
    shard: Annotated[
        str | None, typer.Option(metavar="K/N", help="Only the K-th of N parts of the scans.")
    ] = None,
    redo: Annotated[bool, typer.Option("--redo", help="Also what is there already.")] = False,
    device: Device = "auto",
) -> None:
    """Segment scans, each on its own grid.

    IN may be a file, a DICOM series in a folder or zip, or a folder of such scans; a project
    stands for its test cases. A folder of the field's HDF5 files (CASE/mri_norm2.h5) is taken too.
    Stopped, it goes on where it was: what the same weights have predicted already stays.

    Example: tracoco predict heart/runs/tracoco-seed0 new_scans labels --save label,entropy
    """
    from tracoco.api.runs import predict as predict_scans
    from tracoco.inference.inputs import parse_shard
    from tracoco.inference.maps import wanted_maps
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
