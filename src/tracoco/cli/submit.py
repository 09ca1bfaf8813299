"""`tracoco submit` and `tracoco jobs`: commands as jobs of SLURM or of a queue on this machine."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from tracoco.cli.app import AsJson, app
from tracoco.console import print_json, print_table
from tracoco.errors import UserError

Jobs = Annotated[Path, typer.Option("--jobs-folder", help="Folder for logs and states of jobs.")]
DEFAULT = Path("tracoco-jobs")


@app.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": True})
def submit(
    command: Annotated[
        list[str],
        typer.Argument(
            metavar="COMMAND...",
            help="train, self-train, benchmark, predict or prepare, as you would type it.",
        ),
    ],
    slurm: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE,...", help="Options of sbatch; see `man sbatch`."),
    ] = None,
    local: Annotated[
        int | None,
        typer.Option(min=1, help="Run on this machine without SLURM, so many jobs at a time."),
    ] = None,
    tasks: Annotated[
        int, typer.Option(min=1, help="Jobs that share a benchmark, a prediction or `prepare`.")
    ] = 1,
    seeds: Annotated[
        str | None, typer.Option(metavar="0,1,2", help="Train once for each of these seeds.")
    ] = None,
    folds: Annotated[
        str | None, typer.Option(metavar="1,2,3", help="Train once for each of these folds.")
    ] = None,
    jobs: Jobs = DEFAULT,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the file for sbatch; submit nothing.")
    ] = False,
) -> None:
    """Submit a command as jobs: to SLURM, or with --local to a queue on this machine.

    Put `tracoco submit` in place of `tracoco`, and say what the jobs need. --seeds trains once for
    each seed, and --folds once for each fold; --tasks shares one benchmark, prediction or `prepare`
    between several jobs.

    A SLURM job that runs out of time saves its work, goes back into the queue and resumes. Jobs of
    --local get a GPU each, and go on after you log out. `tracoco jobs` lists all of them.

    Example: tracoco submit train heart --seeds 0,1,2 --slurm partition=gpu,gres=gpu:1,time=24:00:00
    """
    from tracoco.api.cluster import submit as submit_command

    _check_words(command)
    done = submit_command(
        command,
        slurm=slurm or (),
        local=local,
        tasks=tasks,
        seeds=_numbers("--seeds", seeds) if seeds else (),
        folds=_numbers("--folds", folds) if folds else (),
        jobs=jobs,
        dry_run=dry_run,
    )
    if isinstance(done, str):
        print(done)
        return
    for job in done.jobs:
        print(f"job {job.slurm_id or '(local)'}: tracoco {' '.join(job.command)}")
    print(f"logs: {done.folder}")
    where = "" if jobs == DEFAULT else f" {jobs}"
    print(f"next: tracoco jobs{where}")


@app.command()
def jobs(
    folder: Annotated[
        Path, typer.Argument(metavar="[FOLDER]", help="Folder of the submitted jobs.")
    ] = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """List submitted jobs: their state, where they run, and their logs.

    Example: tracoco jobs
    """
    from tracoco.cluster.jobs import list_jobs
    from tracoco.text import number

    rows = list_jobs(folder)
    if as_json:
        print_json({"rows": [asdict(row) for row in rows]})
        return
    table = Table("job", "state", "host", "minutes", "starts", "command")
    table.add_column("log", overflow="fold")
    for row in rows:
        table.add_row(
            row.job,
            row.state,
            row.host,
            number(row.minutes),
            str(row.starts),
            row.command,
            _from_here(row.log),
        )
    print_table(table)


def _from_here(log: str) -> str:
    """A path as one would type it here."""
    path = Path(log)
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def _check_words(words: list[str]) -> None:
    """Tell a wrong option now, and not when the job has waited for its turn."""
    group = typer.main.get_group(app)
    command = group.commands.get(words[0])
    if command:  # another one is told with the names of those that can be submitted
        command.make_context(f"tracoco {words[0]}", words[1:])


def _numbers(option: str, text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise UserError(f"{option} {text} is no list of numbers; e.g. {option} 1,2,3") from None
