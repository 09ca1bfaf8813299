"""`tracoco self-train`: a teacher, then students that learn from its predictions, in rounds."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from tracoco.cli.app import (
    Device,
    Overrides,
    ProjectFolder,
    app,
)


@app.command("self-train")
def self_train(
    project: ProjectFolder,
    rounds: Annotated[int, typer.Option(min=1, help="Number of students after the teacher.")] = 2,
    method: Annotated[
        str, typer.Option(help="Method of the teacher; see `tracoco methods`.")
    ] = "supervised",
    preset: Annotated[
        str | None, typer.Option(help="Name of a preset; see `tracoco presets`.")
    ] = None,
    overrides: Overrides = None,
    minutes: Annotated[
        float | None, typer.Option(help="Train each round for this long, instead of steps.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Random seed.")] = None,
    threshold: Annotated[
        float, typer.Option(help="Ignore voxels predicted with a lower probability than this.")
    ] = 0.0,
    weight: Annotated[
        float, typer.Option(min=0, help="Weight of pseudo-labelled crops beside labelled ones.")
    ] = 1.0,
    student: Annotated[
        Literal["drawn", "previous"],
        typer.Option(help="First weights of a student: drawn, or of the previous round."),
    ] = "drawn",
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="Folder of all rounds. Default: PROJECT/runs/self-train-..."
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume where it was stopped.")] = False,
    init_from: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="Start every round from a run or a .pt file."),
    ] = None,
    init_map: Annotated[
        Path | None,
        typer.Option(metavar="YAML", help="Lines 'theirs: ours' for the names in the .pt file."),
    ] = None,
    device: Device = "auto",
) -> None:
    """Train in rounds: each student learns from labels and from the previous round's predictions.

    The teacher is trained on the labels. It predicts the unlabelled scans, and a student is trained
    on both; then the student predicts, and so on. Validation and test scans are never used for it.

    Stop with Ctrl-C at any point and continue with --resume. The result is the run of the last
    round, OUT/round-N.

    Example: tracoco self-train heart --rounds 2 --set training.steps=4000
    """
    from tracoco.api.self_training import self_train as train_rounds

    run = train_rounds(
        project,
        rounds=rounds,
        method=method,
        preset=preset,
        settings=overrides or (),
        minutes=minutes,
        seed=seed,
        threshold=threshold,
        weight=weight,
        student=student,
        out=out,
        resume=resume,
        init_from=init_from,
        init_map=init_map,
        device=device,
    )
    if run.signal:
        print(f"stopped in {run.folder} after step {run.steps}; all that was done is saved")
        print("go on with the same command and --resume")
        raise typer.Exit(128 + run.signal)
    print(f"trained {rounds + 1} rounds of {run.steps} steps; the last is {run.folder}")
    print(f"next: tracoco predict {run.folder} SCANS {run.folder / 'predictions' / 'test'}")
