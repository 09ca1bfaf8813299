"""A worker takes the next run that nobody has in hand, until none is left."""

import fcntl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tracoco.benchmark.grid import GridRun
from tracoco.benchmark.kept import Results
from tracoco.benchmark.runner import Runner, Scoring
from tracoco.console import say


def work(runs: Sequence[GridRun], runners: Mapping[str, Runner], results: Results) -> int:
    """Bring runs to their end and keep their results; say how many others had in hand."""
    elsewhere = 0
    for run in runs:
        runner = runners[run.dataset]
        folder = runner.folder(run.spec, run.seed)
        with in_hand(folder) as mine:
            if not mine:
                elsewhere += 1
            elif not results.find(run, folder):
                say(f"{run.name}: {folder.name}")
                results.keep(run, folder, runner.result(run.spec, run.seed, Scoring()))
    return elsewhere


@contextmanager
def in_hand(folder: Path) -> Iterator[bool]:
    """Whether a run is ours for now; the lock goes with the process, even if that is killed."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f".{folder.name}.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
