"""`tracoco train`: train a run, or resume one."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tracoco.cli.app import (
    Device,
    Overrides,
    ProjectFolder,
    app,
    complete_method,
    complete_preset,
)

if TYPE_CHECKING:
    from tracoco.api.runs import Run


@app.command()
def train(
    project: ProjectFolder,
    method: Annotated[
        str | None,
        typer.Option(
            help="Name of a method; see `tracoco methods`.", autocompletion=complete_method
        ),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            help="Name of a preset; see `tracoco presets`.", autocompletion=complete_preset
        ),
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(
            metavar="common|released",
            help="Settings of the training: the same for all methods, or those of the method's "
            "authors. Default: common, or the preset's.",
        ),
    ] = None,
    overrides: Overrides = None,
    minutes: Annotated[
        float | None,
        typer.Option(help="Train for at most this long, instead of a number of steps."),
    ] = None,
    fold: Annotated[
        int | None, typer.Option(min=1, help="Hold out this fold of the project, from 1.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Random seed.")] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Run folder. Default: PROJECT/runs/METHOD-seedN[-foldK]."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Resume a run that was stopped.")
    ] = False,
    init_from: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="Start from the weights of a run or of a .pt file."),
    ] = None,
    init_map: Annotated[
        Path | None,
        typer.Option(metavar="YAML", help="Lines 'theirs: ours' for the names in the .pt file."),
    ] = None,
    select_on_test: Annotated[
        bool, typer.Option("--select-on-test", help="Select best on the test set; results say so.")
    ] = False,
    track: Annotated[
        list[str] | None,
        typer.Option(
            metavar="tensorboard|mlflow|wandb", help="Log to this tracker too; repeat for several."
        ),
    ] = None,
    device: Device = "auto",
) -> None:
    """Train a model.

    Stop a training with Ctrl-C and continue it with --resume: nothing is lost.

    With --minutes, the time of a step is measured first, and the run records the number of steps.
    It may end earlier: steps are faster until unlabelled scans count.

    With --fold, the run learns from the labels of the other folds (`tracoco init --folds`), and no
    scan of a patient of this fold is used. `tracoco cross-validate` scores all folds.

    Example: tracoco train heart --preset la-8 --set training.steps=4000
    """
    from tracoco.api.runs import train as train_run

    run = train_run(
        project,
        method=method,
        preset=preset,
        recipe=recipe,  # type: ignore[arg-type]  # an unknown one is told with the nearest
        settings=overrides or (),
        minutes=minutes,
        fold=fold,
        seed=seed,
        out=out,
        resume=resume,
        init_from=init_from,
        init_map=init_map,
        select_on_test=select_on_test,
        track=track or (),
        device=device,
    )
    if run.leads and run.signal:
        total = run.settings.training.length
        print(f"stopped after step {run.steps} of {total}; saved in {run.folder}")
        print("go on with the same command and --resume")
    elif run.leads:
        print(f"trained {run.steps} steps: {run.folder}")
        print(f"next: {_next_command(project, run)}")
    if run.signal:
        raise typer.Exit(128 + run.signal)


def _next_command(project: Path, run: "Run") -> str:
    """What a run is for: to predict, or to start another one from."""
    from tracoco.methods import method_row

    if run.settings.data.fold:
        return f"tracoco cross-validate {project}, once the other folds are trained"
    if method_row(run.settings.method.name).segments:
        return f"tracoco predict {run.folder} SCANS {run.folder / 'predictions' / 'test'}"
    return f"tracoco train {project} --method tracoco --init-from {run.folder}"
