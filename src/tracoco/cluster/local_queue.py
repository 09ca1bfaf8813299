"""A queue of jobs on one machine: some at a time, each with a GPU of its own where there are any.

`python -m tracoco.cluster.local_queue FOLDER N` is what `tracoco submit --local N` starts.
"""

import subprocess
import sys
import threading
import time
from pathlib import Path
from queue import Empty, SimpleQueue
from socket import gethostname

from tracoco.cluster.jobs import JobRecord, JobState, ended_state, read_submission, write_state
from tracoco.studies.benchmark.worker_processes import visible_gpus, worker_environment


def run_queue(folder: Path, at_a_time: int) -> None:
    """Run all jobs of a submission, and say of each how it ended."""
    jobs = SimpleQueue[tuple[int, JobRecord]]()
    for job in enumerate(read_submission(folder).jobs):
        jobs.put(job)
    gpus = visible_gpus()

    def work(slot: int) -> None:
        environment = worker_environment(slot, at_a_time, gpus)
        while True:
            try:
                number, job = jobs.get_nowait()
            except Empty:
                return
            _run(folder, number, job, environment)

    slots = [threading.Thread(target=work, args=(slot,)) for slot in range(at_a_time)]
    for slot in slots:
        slot.start()
    for slot in slots:
        slot.join()


def _run(folder: Path, number: int, job: JobRecord, environment: dict[str, str]) -> None:
    began, host = time.time(), gethostname()
    with Path(job.log).open("wb") as log:
        words = [sys.executable, "-m", "tracoco", *job.command]
        process = subprocess.Popen(words, stdout=log, stderr=log, env=environment)  # noqa: S603 - our own command
        write_state(folder, number, JobState("running", host, process.pid, began))
        code = process.wait()
    state = ended_state(code)
    write_state(folder, number, JobState(state, host, process.pid, began, time.time(), code))


if __name__ == "__main__":
    run_queue(Path(sys.argv[1]), int(sys.argv[2]))
