"""`tracoco predict`: segment scans with a trained run."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from tracoco.cli.app import (
    CheckpointName,
    Device,
    WeightsKind,
    app,
)


@app.command()
def predict(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="Run folder, or a model exported as ONNX.")
    ],
    source: Annotated[
        Path, typer.Argument(metavar="IN", help="Scan, folder of scans, or project.")
    ],
    out: Annotated[
        Path, typer.Argument(metavar="OUT", help="Output folder, or file for one scan.")
    ],
    others: Annotated[
        list[Path] | None,
        typer.Option("--with", metavar="RUN", help="Average with this run; repeat for several."),
    ] = None,
    checkpoint: CheckpointName = "last",
    weights: WeightsKind = "averaged",
    members: Annotated[
        Literal["first", "both"],
        typer.Option(help="both: average two networks that were trained together."),
    ] = "first",
    mirror: Annotated[
        bool, typer.Option("--mirror", help="Average mirrored views, where the plan has such axes.")
    ] = False,
    plain: Annotated[
        bool, typer.Option("--plain", help="Leave out what `tracoco tune` recorded in the run.")
    ] = False,
    save: Annotated[
        str, typer.Option(help="Comma-separated: label,probability,disagreement,entropy.")
    ] = "label",
    dicom_seg: Annotated[
        bool, typer.Option("--dicom-seg", help="Also write DICOM segmentations of DICOM series.")
    ] = False,
    rtstruct: Annotated[
        bool, typer.Option("--rtstruct", help="Also write contours (RTSTRUCT) of DICOM series.")
    ] = False,
    seg_nrrd: Annotated[
        bool, typer.Option("--seg-nrrd", help="Also write .seg.nrrd files for 3D Slicer.")
    ] = False,
    cct: Annotated[
        bool, typer.Option("--cct", help="Remove components below 1/1500 of the scan.")
    ] = False,
    part: Annotated[
        Literal["labelled", "unlabelled", "validation", "test", "fold", "all"] | None,
        typer.Option(
            help="Part of a project to predict. fold: what the run held out. Default: its test set."
        ),
    ] = None,
    uncertainty: Annotated[
        bool,
        typer.Option("--uncertainty", help="Keep how unsure the networks are in predictions.json."),
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
    predict its test set, or another part of it with --part. Folders of HDF5 files
    (CASE/mri_norm2.h5) work too. If interrupted, run the same command again: cases that the same
    weights have predicted are skipped.

    `--with`, `--members both` and `--mirror` average class probabilities of several runs, of the
    two networks of a run, and of mirrored views.

    Example: tracoco predict heart/runs/tracoco-seed0 new_scans labels --save label,entropy
    """
    from tracoco.api.predictions import predict as predict_scans
    from tracoco.inference.manifest import merged_manifest
    from tracoco.inference.prediction import wanted_maps
    from tracoco.processes import parse_shard

    cases = predict_scans(
        run,
        source,
        out,
        others=others or (),
        checkpoint=checkpoint,
        weights=weights,
        members=members,
        mirror=mirror,
        plain=plain,
        cct=cct,
        maps=wanted_maps(save),
        dicom_seg=dicom_seg,
        rtstruct=rtstruct,
        part=part,
        uncertainty=uncertainty,
        seg_nrrd=seg_nrrd,
        shard=parse_shard(shard) if shard else None,
        redo=redo,
        device=device,
    )
    print(f"{len(cases)} predictions in {out}")
    watermark = merged_manifest(cases[0].prediction.parent).watermark
    if watermark:
        print(watermark)
    if part in ("unlabelled", "all"):
        print(f"next: tracoco next {source} {run}")
    else:
        print(f"next: tracoco evaluate {out} {source if part else 'TRUTH'}")
