"""Submit commands as jobs: arrays for seeds, folds, shards and workers of a grid.

On SLURM, submitit writes the batch file and puts a job that ran out of time back into the queue. On
one machine, a queue of its own runs some jobs at a time, each with a GPU of its own.
"""

import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from importlib import import_module
from pathlib import Path
from secrets import token_hex
from shutil import rmtree, which
from socket import gethostname
from typing import Any

from tracoco.cluster.jobs import JobRecord, Submission
from tracoco.cluster.task import CommandTask
from tracoco.errors import UserError, did_you_mean, first_line

SHARDED = ("predict", "prepare")
"""Commands of which several jobs each do a part: `--shard 1/4`."""
COMMANDS = ("train", "self-train", "benchmark", *SHARDED)
REQUEUES = 1000
"""Times that a job which ran out of time goes back into the queue: as often as it takes."""
DEFAULT_MINUTES = 24 * 60


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be submitted, and where its logs go."""

    command: tuple[str, ...]
    logs: Path
    tasks: int = 1
    """Jobs that share the work of one command."""
    seeds: tuple[int, ...] = ()
    """One training for each."""
    folds: tuple[int, ...] = ()
    """One training for each, and for each seed."""

    def commands(self) -> list[tuple[str, ...]]:
        """The command of each job."""
        name, *words = self.command
        if name not in COMMANDS:
            raise UserError(f"'{name}' cannot be submitted; {did_you_mean(name, COMMANDS)}")
        if self.seeds and name != "train":
            raise UserError(f"--seeds is for `train`; `{name}` has no seeds of its own")
        if self.folds and name != "train":
            raise UserError(f"--folds is for `train`; `{name}` holds out no fold")
        if self.tasks > 1 and name in ("train", "self-train"):
            raise UserError(
                f"--tasks {self.tasks} would start the same training {self.tasks} times; give "
                "--seeds or --folds for several trainings, or --slurm ntasks_per_node=N for one in "
                "N processes"
            )
        if self.tasks > 1 and "--shard" in words:
            raise UserError("--tasks and --shard do not go together; leave out --shard")
        if self.seeds or self.folds:
            return [(name, *words, *choice) for choice in self._trainings(words)]
        if self.tasks > 1 and name in SHARDED:
            shards = range(1, self.tasks + 1)
            return [(name, *words, "--shard", f"{part}/{self.tasks}") for part in shards]
        return [(name, *words)] * self.tasks

    def _trainings(self, words: Sequence[str]) -> list[tuple[str, ...]]:
        """The options of each training, which must not be given by themselves."""
        for several, one, chosen in (
            ("--seeds", "--seed", self.seeds),
            ("--folds", "--fold", self.folds),
        ):
            taken = [word for word in (one, "--out", "-o") if chosen and word in words]
            if taken:
                raise UserError(
                    f"{taken[0]} and {several} do not go together; leave out {taken[0]}"
                )
        folds = [["--fold", str(fold)] for fold in self.folds] or [[]]
        seeds = [["--seed", str(seed)] for seed in self.seeds] or [[]]
        return [(*fold, *seed) for seed in seeds for fold in folds]

    def folder(self) -> Path:
        """A folder for logs and states that no other submission has."""
        stamp = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
        return self.logs.absolute() / f"{self.command[0]}-{stamp}-{token_hex(2)}"


def submit_local(request: Request, at_a_time: int) -> Submission:
    """Start a queue on this machine that runs so many jobs at a time, and outlives this command."""
    commands, folder = request.commands(), request.folder()
    jobs = tuple(
        JobRecord(command, str(folder / f"job{number}.log"))
        for number, command in enumerate(commands)
    )
    submission = Submission(folder, jobs, time.time(), "local", gethostname())
    submission.write()
    words = [sys.executable, "-m", "tracoco.cluster.local_queue", str(folder), str(at_a_time)]
    with (folder / "queue.log").open("wb") as log:
        queue = subprocess.Popen(  # noqa: S603 - our own program
            words, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
        )
    submission = replace(submission, pid=queue.pid)
    submission.write()
    return submission


def submit_slurm(request: Request, options: Mapping[str, Any]) -> Submission:
    """Submit one job, or an array of them."""
    if which("sbatch") is None:
        raise UserError("there is no sbatch here; submit from a login node, or use --local N")
    commands, folder = request.commands(), request.folder()
    folder.mkdir(parents=True)
    executor = _executor(folder, request, options)
    tasks = [CommandTask(folder, number, command) for number, command in enumerate(commands)]
    try:
        jobs = executor.submit_array(tasks) if len(tasks) > 1 else [executor.submit(tasks[0])]
    except Exception as error:
        # submitit passes on whatever sbatch printed, as an exception of one of several types.
        rmtree(folder)
        raise UserError(f"SLURM took no job: {first_line(error)}; check --slurm") from error
    records = tuple(
        JobRecord(command, str(job.paths.stdout), str(job.job_id))
        for command, job in zip(commands, jobs, strict=True)
    )
    submission = Submission(folder, records, time.time(), "slurm", gethostname())
    submission.write()
    return submission


def batch_file(request: Request, options: Mapping[str, Any]) -> str:
    """The file that would be given to sbatch, with the commands of its jobs as comments."""
    commands, folder = request.commands(), request.folder()
    parameters = _parameters(request, options)
    if len(commands) > 1:
        parameters["map_count"] = len(commands)
    text: str = _submitit()._make_sbatch_string(  # noqa: SLF001 - it has no public name
        command=f"{sys.executable} -u -m submitit.core._submit {folder}",
        folder=folder,
        **parameters,
    )
    lines = [f"# job {number}: tracoco {' '.join(words)}" for number, words in enumerate(commands)]
    return "\n".join([text.rstrip(), "", *lines])


def parse_options(texts: Sequence[str]) -> dict[str, Any]:
    """Options of sbatch: `partition=gpu,gres=gpu:1,time=24:00:00`."""
    options: dict[str, Any] = {}
    for part in (part for text in texts for part in re.split(r",(?=[A-Za-z][\w-]*=)", text)):
        key, equals, value = part.partition("=")
        if not (equals and key and value):
            raise UserError(f"--slurm {part} is not KEY=VALUE; e.g. --slurm partition=gpu,time=60")
        options[key.strip().lstrip("-").replace("-", "_")] = value.strip()
    return options


def minutes_of(text: str) -> int:
    """Minutes of a time as SLURM writes it: `90`, `90:00`, `24:00:00`, `2-12`, `2-12:30:00`."""
    days, dash, rest = text.rpartition("-")
    parts = rest.split(":")
    if not re.fullmatch(r"(\d+-)?\d+(:\d+){0,2}", text):
        raise UserError(f"--slurm time={text} is no time; e.g. time=24:00:00")
    numbers = [int(part) for part in parts]
    if dash:  # days-hours:minutes:seconds
        numbers += [0] * (3 - len(numbers))
    elif len(numbers) < 3:  # minutes:seconds
        numbers = [0, *numbers, *[0] * (2 - len(numbers))]
    hours, minutes, seconds = numbers
    return 1440 * int(days or 0) + 60 * hours + minutes + (seconds > 0)


def _executor(folder: Path, request: Request, options: Mapping[str, Any]) -> Any:
    executor = _submitit().SlurmExecutor(folder, max_num_timeout=REQUEUES)
    executor.update_parameters(**_parameters(request, options))
    return executor


def _parameters(request: Request, options: Mapping[str, Any]) -> dict[str, Any]:
    """What submitit has a name for, and the rest as sbatch takes it."""
    known = _submitit()._get_default_parameters()  # noqa: SLF001 - it has no public name
    given: dict[str, Any] = {
        "job_name": f"tracoco-{request.command[0]}",
        "time": DEFAULT_MINUTES,
    } | {**options}
    given["time"] = minutes_of(str(given["time"]))
    numbers = {"nodes", "ntasks_per_node", "array_parallelism", "signal_delay_s"}
    parameters: dict[str, Any] = {
        key: int(value) if key in numbers else value for key, value in given.items() if key in known
    }
    more = {key: value for key, value in given.items() if key not in known}
    own = {"stderr_to_stdout": True, "wckey": None}
    return parameters | own | {"additional_parameters": {"requeue": True} | more}


def _submitit() -> Any:
    """The part of submitit that speaks to SLURM; it is an extra."""
    try:
        return import_module("submitit.slurm.slurm")
    except ImportError:
        raise UserError("SLURM jobs need submitit; pip install 'tracoco[slurm]'") from None
