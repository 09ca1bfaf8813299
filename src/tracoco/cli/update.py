"""`tracoco update`: take corrected labels into a project, and train from them."""

from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated

import typer

from tracoco.cli.app import Device, Overrides, ProjectFolder, app

if TYPE_CHECKING:
    from tracoco.api.labelling import UpdateResult


@app.command()
def update(
    project: ProjectFolder,
    labels: Annotated[
        Path | None, typer.Option(help="Folder of corrected labels, each by its scan's name.")
    ] = None,
    train: Annotated[
        bool, typer.Option("--train", help="Train from the newest run, and score both.")
    ] = False,
    accept_drafts: Annotated[
        bool, typer.Option("--accept-drafts", help="Also take drafts that nobody has changed.")
    ] = False,
    overrides: Overrides = None,
    minutes: Annotated[
        float | None,
        typer.Option(help="Train for at most this long, instead of a number of steps."),
    ] = None,
    init_from: Annotated[
        Path | None, typer.Option(metavar="RUN", help="Start from this run, not the newest one.")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Number of processes. Default: chosen by machine and data."),
    ] = None,
    device: Device = "auto",
) -> None:
    """Take corrected labels into a project, and train from the last model.

    Validation and test cases stay as they are. A training that was stopped is resumed by
    `tracoco update PROJECT --train`.

    Example: tracoco update heart --labels heart/drafts --train
    """
    from tracoco.api.labelling import update as update_project

    result = update_project(
        project,
        labels=labels,
        train=train,
        accept_drafts=accept_drafts,
        settings=overrides or (),
        minutes=minutes,
        init_from=init_from,
        workers=workers,
        device=device,
    )
    _print_labels(result)
    if result.run is None:
        if result.labels.taken:
            print(f"next: tracoco update {project} --train")
    elif result.run.leads and result.run.signal:
        print(f"stopped after step {result.run.steps}; saved in {result.run.folder}")
        print(f"go on with: tracoco update {project} --train")
        raise typer.Exit(128 + result.run.signal)
    elif result.run.leads:
        _print_round(result)
        print(f"next: tracoco next {project} {result.run.folder}, or tracoco report {project}")


def _print_labels(result: "UpdateResult") -> None:
    from tracoco.text import count

    new = result.labels
    if new.taken or new.unchanged:
        print(
            f"{count(len(new.added), 'scan')} newly labelled, {len(new.corrected)} corrected, "
            f"{len(new.unchanged)} unchanged"
        )
    if new.drafts:
        print(
            f"warning: {', '.join(new.drafts)}: drafts that nobody has changed were left out; "
            "--accept-drafts takes them as they are"
        )
    if new.empty:
        print(f"warning: {', '.join(new.empty)}: taken, but nothing is drawn in these labels")


def _print_round(result: "UpdateResult") -> None:
    from tracoco.text import count, number, signed

    done, run = result.round, result.run
    if done is None or run is None:
        return
    print(f"round {done.number}: {run.steps} steps with {done.labelled} labels: {run.folder}")
    after = [dice for dice in (done.after or {}).values() if dice is not None]
    if not after:
        print("there are no validation or test cases, so the change in Dice is not known")
        return
    change = f" ({signed(fmean(done.changes))})" if done.changes else ""
    cases = count(len(after), f"{done.part} case")
    print(f"Dice of {cases}: {number(fmean(after))} %{change}")
