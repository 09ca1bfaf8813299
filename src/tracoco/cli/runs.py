"""`tracoco train`, `predict` and `evaluate`: from a project to scores."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from tracoco.cli.app import (
    AsJson,
    CheckpointName,
    Device,
    Overrides,
    ProjectFolder,
    RunArgument,
    WeightsKind,
    app,
)
from tracoco.console import print_json, print_table, progress_console

Units = Literal["mm", "voxel"]
Empty = Literal["missed", "zero"]
Named = Literal["paper"]


@app.command()
def train(
    project: ProjectFolder,
    method: Annotated[str | None, typer.Option(help="See `tracoco methods`.")] = None,
    preset: Annotated[str | None, typer.Option(help="See `tracoco presets`.")] = None,
    overrides: Overrides = None,
    minutes: Annotated[
        float | None, typer.Option(help="Length by time on this machine, in place of steps.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Changes every random choice.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="PROJECT/runs/METHOD-seedN if not given.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a run that was stopped.")
    ] = False,
    init_from: Annotated[
        Path | None, typer.Option(metavar="RUN", help="Start from this run's last weights.")
    ] = None,
    select_on_test: Annotated[
        bool, typer.Option("--select-on-test", help="Choose best on test cases; results say so.")
    ] = False,
    device: Device = "auto",
) -> None:
    """Train a run.

    Stop it with Ctrl-C and go on with --resume: nothing is lost.

    With --minutes, the time of a step is measured first; the run records the steps that fit.

    Example: tracoco train heart --preset la-8 --set training.steps=4000
    """
    from tracoco.experiment import train as train_run
    from tracoco.presets import load_config
    from tracoco.project.folder import Project
    from tracoco.training.run_folder import RunFolder

    changes = [f"method.name={method}"] if method else []
    changes += [f"training.minutes={minutes}"] if minutes is not None else []
    changes += [f"seed={seed}"] if seed is not None else []
    changes += ["training.select_on=test"] if select_on_test else []
    changes += overrides or []
    config = load_config(preset, changes)
    _check_length(changes, config.training.minutes)
    opened = Project(project)
    folder = out or opened.runs_root / f"{config.method.name}-seed{config.seed}"
    result = train_run(
        opened,
        config,
        folder,
        resume=resume,
        init_from=init_from,
        device=device,
        console=progress_console(),
    )
    if result.leads and result.signal:
        total = RunFolder(folder).config().training.length
        print(f"stopped after step {result.steps} of {total}; saved in {folder}")
        print("go on with the same command and --resume")
    elif result.leads:
        print(f"trained {result.steps} steps: {folder}")
        print(f"next: tracoco predict {folder} SCANS {folder / 'predictions' / 'test'}")
    if result.signal:
        raise typer.Exit(128 + result.signal)


def _check_length(changes: list[str], minutes: float | None) -> None:
    """Refuse two lengths in one command; the steps of a preset give way to minutes."""
    from tracoco.errors import UserError
    from tracoco.presets import with_overrides

    given = with_overrides({}, changes).get("training") or {}
    if minutes is not None and {"minutes", "steps"} <= given.keys():
        raise UserError(
            f"{minutes:g} minutes and training.steps={given['steps']} both say how long the run "
            "is; keep one"
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
    from tracoco.inference.predictions import predict_scans
    from tracoco.inference.scan_maps import wanted_maps
    from tracoco.inference.sources import parse_shard
    from tracoco.training.run_folder import RunFolder

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
        console=progress_console(),
    )
    print(f"{len(cases)} predictions in {out}")
    watermark = RunFolder(run).watermark(checkpoint)
    if watermark:
        print(watermark)
    print(f"next: tracoco evaluate {out} TRUTH")


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
    from tracoco.evaluation.folders import evaluate_predictions
    from tracoco.evaluation.protocols import chosen_protocol
    from tracoco.report.tables import score_table

    conventions = chosen_protocol(protocol, units, empty, cct=cct)
    result = evaluate_predictions(prediction, truth, conventions)
    if as_json:
        print_json(result)
    else:
        print_table(score_table(result))
