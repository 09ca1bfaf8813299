"""`tracoco train`: train a run, or resume one."""

from pathlib import Path
from typing import Annotated

import typer

from tracoco.cli.app import (
    Device,
    Overrides,
    ProjectFolder,
    app,
)
from tracoco.console import progress_console


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
    from tracoco.presets import load_config
    from tracoco.project.folder import Project
    from tracoco.runs.folder import RunFolder
    from tracoco.training.train import train as train_run

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
