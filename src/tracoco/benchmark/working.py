"""A worker takes the next run that nobody has in hand, until none is left."""

from collections.abc import Mapping, Sequence

from tracoco.benchmark.grid import GridRun
from tracoco.benchmark.kept import Results
from tracoco.benchmark.locks import in_hand
from tracoco.benchmark.runner import Runner, Scoring
from tracoco.console import say
from tracoco.errors import Stopped, UserError, raise_all


def work(runs: Sequence[GridRun], runners: Mapping[str, Runner], results: Results) -> None:
    """Bring runs to their end and keep their results.

    A run that fails does not keep the others from being done; at the end one error names all
    that failed. A stop ends the work at once.
    """
    elsewhere, problems = 0, []
    for run in runs:
        try:
            elsewhere += not _take(run, runners[run.dataset], results)
        except Stopped:
            raise
        except UserError as error:
            say(f"{run.name} failed: {error}")
            problems.append(f"{run.name}: {error}")
    if elsewhere:
        say(f"{elsewhere} runs are in the hands of other workers")
    raise_all(problems)


def _take(run: GridRun, runner: Runner, results: Results) -> bool:
    """Do what is left of a run, unless another worker has it in hand: then false."""
    folder = runner.folder(run.spec, run.seed)
    with in_hand(folder) as mine:
        if mine and not results.find(run, folder):
            say(f"{run.name}: {folder.name}")
            results.keep(run, folder, runner.result(run.spec, run.seed, Scoring()))
        return mine
