"""What is known of submitted jobs: one folder per submission, with a record and each job's state.

JOBS/train-20260102-101500-3f9a/
    submission.json     the commands, and the numbers that SLURM gave the jobs
    job0.json           written by the job: where it runs, since when, how it ended
    ...                 logs
"""

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from shutil import which
from socket import gethostname
from typing import Literal, TypeVar

from tracoco.errors import UserError
from tracoco.files import read_json, write_json

RECORD = "submission.json"
State = Literal["waiting", "running", "done", "failed", "stopped", "requeued", "lost"]
"""stopped: by a signal, with its work saved. lost: it neither runs nor said how it ended."""


@dataclass(frozen=True, slots=True)
class JobRecord:
    """One command of a submission."""

    command: tuple[str, ...]
    """Of `tracoco`, without that word."""
    log: str
    slurm_id: str = ""
    """`12` or `12_0`; empty for a job of this machine's queue."""


@dataclass(frozen=True, slots=True)
class Submission:
    """Commands that were submitted together."""

    folder: Path
    jobs: tuple[JobRecord, ...]
    submitted: float
    """Seconds since 1970."""
    queue: Literal["slurm", "local"]
    host: str = ""
    pid: int = 0
    """Of the queue on this machine."""

    def write(self) -> None:
        """Keep the record."""
        values = asdict(self)
        del values["folder"]
        write_json(self.folder / RECORD, values)


@dataclass(frozen=True, slots=True)
class JobState:
    """What a job wrote of itself."""

    state: State
    host: str
    pid: int
    began: float
    ended: float | None = None
    code: int | None = None
    """The exit code of the command."""
    starts: int = 1


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job as `tracoco jobs` shows it."""

    submission: str
    job: str
    state: State
    host: str
    minutes: float | None
    """Since its last start, or until its end."""
    starts: int
    command: str
    log: str


Record = TypeVar("Record", JobRecord, JobState)


def list_jobs(folder: Path) -> list[JobRow]:
    """The jobs of all submissions below a folder, the oldest first."""
    if not folder.is_dir():
        raise UserError(f"{folder} does not exist; jobs are listed where they were submitted from")
    found = sorted(
        (read_submission(path.parent) for path in folder.glob(f"*/{RECORD}")),
        key=lambda submission: submission.submitted,
    )
    queued = _slurm_states([job.slurm_id for each in found for job in each.jobs if job.slurm_id])
    return [row for submission in found for row in _rows(submission, queued)]


def read_submission(folder: Path) -> Submission:
    """The record of a submission."""
    path = folder / RECORD
    values = read_json(path)
    try:
        jobs = tuple(_built(JobRecord, each, path) for each in values.pop("jobs"))
        jobs = tuple(replace(job, command=tuple(job.command)) for job in jobs)
        return Submission(folder, jobs, **values)
    except (TypeError, KeyError, AttributeError):
        raise UserError(f"{path} is not the record of a submission; delete its folder") from None


def state_file(folder: Path, number: int) -> Path:
    """Where the job of this number keeps its state."""
    return folder / f"job{number}.json"


def read_state(folder: Path, number: int) -> JobState | None:
    """What a job wrote; None before it began."""
    path = state_file(folder, number)
    return _built(JobState, read_json(path), path) if path.exists() else None


def write_state(folder: Path, number: int, state: JobState) -> None:
    """Keep what a job says of itself."""
    write_json(state_file(folder, number), asdict(state))


def _built(kind: type[Record], values: Mapping[str, object], path: Path) -> Record:
    try:
        return kind(**values)  # type: ignore[arg-type]  # a wrong field is told below
    except TypeError:
        raise UserError(f"{path} is damaged; delete it") from None


def _rows(submission: Submission, queued: Mapping[str, str] | None) -> list[JobRow]:
    rows = []
    for number, job in enumerate(submission.jobs):
        known = read_state(submission.folder, number)
        state = _state(submission, job, known, queued)
        until = time.time() if state == "running" else known.ended if known else None
        minutes = (until - known.began) / 60 if known and until is not None else None
        rows.append(
            JobRow(
                submission.folder.name,
                job.slurm_id or str(number),
                state,
                known.host if known else "",
                minutes,
                known.starts if known else 0,
                " ".join(job.command),
                job.log,
            )
        )
    return rows


def _state(
    submission: Submission,
    job: JobRecord,
    known: JobState | None,
    queued: Mapping[str, str] | None,
) -> State:
    """The job's own word if it has ended; else whether anything still runs or holds it.

    SLURM may have stopped a job to put it back into its queue.
    """
    if known and known.state in ("done", "failed"):
        return known.state
    held = (queued or {}).get(job.slurm_id)
    if held:
        return "running" if held in ("RUNNING", "COMPLETING") else "waiting"
    if known and known.state == "stopped":
        return known.state
    if job.slurm_id:  # without squeue here, the job's word is all there is
        return "lost" if queued is not None else known.state if known else "waiting"
    if known and known.state == "running":
        return "running" if _alive(known.host, known.pid) else "lost"
    return "waiting" if _alive(submission.host, submission.pid) else "lost"


def _alive(host: str, pid: int) -> bool:
    """Whether a process runs; of another machine it is believed."""
    if host != gethostname():
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _slurm_states(ids: Sequence[str]) -> dict[str, str] | None:
    """What SLURM's queue says of jobs, by number; None where there is no SLURM to ask."""
    squeue = which("squeue")
    if not ids:
        return {}
    if squeue is None:
        return None
    command = [squeue, "--noheader", "--array", "--format", "%i %F %K %T"]
    shown = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - fixed words
    if shown.returncode:
        return None
    states = {}
    for line in shown.stdout.splitlines():
        name, array, task, state = line.split()
        states[name] = states[f"{array}_{task}"] = state
    return states


def ended_state(code: int) -> State:
    """How a command ended, by its exit code."""
    if code == 0:
        return "done"
    number = code - 128 if code > 128 else -code
    if number == signal.SIGUSR2:
        return "requeued"
    return "stopped" if number in set(signal.Signals) else "failed"
