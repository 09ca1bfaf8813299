"""A command as a job: it says where it runs, resumes after a restart, and tells how it ended."""

import os
import runpy
import signal
import sys
import time
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from socket import gethostname

from tracoco.cluster.jobs import JobState, ended_state, read_state, write_state

RESUMABLE = ("train", "self-train")
"""Commands that go on after a restart by `--resume`; the others do so by themselves."""


@dataclass(frozen=True, slots=True)
class CommandTask:
    """One command of a submission, run in the process of its job."""

    folder: Path
    number: int
    words: tuple[str, ...]

    def __call__(self) -> None:
        """Run the command, and end as it does, so that SLURM knows a job that failed.

        SLURM's warning before the end of the time is SIGUSR2: the command has saved its work then,
        and the job is put back into the queue by whoever handled that signal before.
        """
        earlier = read_state(self.folder, self.number)
        starts = earlier.starts + 1 if earlier else 1
        leads = os.environ.get("SLURM_PROCID", "0") == "0"
        began = time.time()
        self._note(JobState("running", gethostname(), os.getpid(), began, starts=starts), leads)
        code = run_command(self.words_to_run(restarted=earlier is not None))
        state = ended_state(code)
        ended = JobState(state, gethostname(), os.getpid(), began, time.time(), code, starts)
        self._note(ended, leads)
        if state == "requeued":
            os.kill(os.getpid(), signal.SIGUSR2)
        if code:
            sys.exit(code)

    def words_to_run(self, *, restarted: bool) -> list[str]:
        """The command; after a restart with `--resume` where it needs that."""
        words = list(self.words)
        if restarted and words[0] in RESUMABLE and "--resume" not in words:
            words.append("--resume")
        return words

    def checkpoint(self) -> object:
        """What submitit puts back into the queue: the same command, which resumes."""
        return import_module("submitit.helpers").DelayedSubmission(self)

    def _note(self, state: JobState, leads: bool) -> None:  # noqa: FBT001 - of several tasks one
        if leads:
            write_state(self.folder, self.number, state)


def run_command(words: list[str]) -> int:
    """Run a command of the package in this process; its exit code."""
    before = sys.argv
    sys.argv = ["tracoco", *words]
    try:
        runpy.run_module("tracoco", run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        code = ended.code
        return code if isinstance(code, int) else int(code is not None)
    finally:
        sys.argv = before
    return 0
