"""Submit commands to SLURM or to a queue on this machine, and list the jobs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tracoco.cluster.jobs import JobRow, Submission, list_jobs
from tracoco.cluster.submit import Request, batch_file, parse_options, submit_local, submit_slurm
from tracoco.errors import UserError

JOBS = Path("tracoco-jobs")
"""Where logs and states of jobs go, in the folder that they are submitted from."""


def submit(  # noqa: PLR0913 - each is an option of the command, with the same default
    command: Sequence[str],
    *,
    slurm: Mapping[str, Any] | Sequence[str] = (),
    local: int | None = None,
    tasks: int = 1,
    seeds: Sequence[int] = (),
    folds: Sequence[int] = (),
    jobs: Path | str = JOBS,
    dry_run: bool = False,
) -> Submission | str:
    """Submit a command as one or several jobs, to SLURM or to a queue on this machine.

    Args:
        command: words of the command line, as `["train", "heart", "--preset", "la-8"]`.
        slurm: options of sbatch, as `{"partition": "gpu", "gres": "gpu:1"}` or `KEY=VALUE,...`.
        local: run on this machine instead, so many jobs at a time.
        tasks: jobs that share the work of `benchmark`, `predict` or `prepare`.
        seeds: of `train`, one job for each.
        folds: of `train`, one job for each of these folds, and for each of the seeds.
        jobs: folder for logs and states.
        dry_run: submit nothing; return the file for sbatch, or the commands of the queue.
    """
    if not command:
        raise UserError("nothing to submit; give a command, as in `tracoco submit train PROJECT`")
    request = Request(tuple(command), Path(jobs), tasks, tuple(seeds), tuple(folds))
    options = dict(slurm) if isinstance(slurm, Mapping) else parse_options(slurm)
    if local is not None and options:
        raise UserError("--local and --slurm do not go together; keep one")
    if local is not None and local < 1:
        raise UserError(f"--local {local} runs nothing; give the number of jobs at a time")
    if dry_run:
        lines = [f"tracoco {' '.join(words)}" for words in request.commands()]
        return "\n".join(lines) if local else batch_file(request, options)
    return submit_local(request, local) if local else submit_slurm(request, options)


def jobs(folder: Path | str = JOBS) -> list[JobRow]:
    """List submitted jobs: state, where they run, since when, and their logs."""
    return list_jobs(Path(folder))
