"""Fill the paper's tables with our own results: run what is missing, then put both together."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tracoco.console import say
from tracoco.errors import UserError, raise_all
from tracoco.evaluation.complexity import Complexity
from tracoco.studies.benchmark.grid import RunSpec
from tracoco.studies.benchmark.results import RunResult
from tracoco.studies.benchmark.runner import Runner, Scoring
from tracoco.studies.paper.request import PaperRequest, is_the_papers
from tracoco.studies.paper.table_rows import PaperRow


@dataclass(frozen=True, slots=True)
class FilledRow:
    """A published row with our results, one for each seed, or why there are none."""

    row: PaperRow
    results: tuple[RunResult, ...] = ()
    folders: tuple[Path, ...] = ()
    """Of the runs, one for each seed."""
    reason: str = ""
    stand_in: str = ""
    """The project that our results are of, where it is not the paper's data set."""
    cost: Complexity | None = None
    """Of the network that ours predicts with, in tables that publish it."""
    cost_note: str = ""
    """Why that is not the published cost, where it is not."""


@dataclass(frozen=True, slots=True)
class _Planned:
    row: PaperRow
    runner: Runner
    spec: RunSpec
    scoring: Scoring


def fill(rows: Sequence[PaperRow], request: PaperRequest) -> list[FilledRow]:
    """Bring every run of the rows to its end; rows that share a run share its result."""
    planned = [_plan(row, request) for row in rows]
    ready = [each for each in planned if isinstance(each, _Planned)]
    _check(ready, request)
    total, done = request.seeds * len(ready), 0
    filled = []
    for each in planned:
        if isinstance(each, FilledRow):
            filled.append(each)
            continue
        results, folders = [], []
        for seed in range(request.seeds):
            done += 1
            say(f"{done} of {total}: {_title(each)}, seed {seed}")
            results.append(each.runner.result(each.spec, seed, each.scoring))
            folders.append(each.runner.folder(each.spec, seed))
        own = is_the_papers(each.runner.project, each.row.data)
        stand_in = "" if own else each.runner.project.root.name
        filled.append(FilledRow(each.row, tuple(results), tuple(folders), stand_in=stand_in))
    return filled


def _plan(row: PaperRow, request: PaperRequest) -> "_Planned | FilledRow":
    runner = request.runner(row.data)
    if runner is None:
        return FilledRow(row, reason=row.missing or f"no --project {row.data}=FOLDER")
    reason = row.missing or _unfit(row, runner, request)
    if reason:
        return FilledRow(row, reason=reason)
    scoring = request.scoring(row.checkpoint, cct=row.published.cct)
    return _Planned(row, runner, request.spec(row.preset, row.changes), scoring)


def _unfit(row: PaperRow, runner: Runner, request: PaperRequest) -> str:
    """Why the row cannot be made of this project, if it cannot."""
    dimensions = runner.project.load_plan().dimensions
    flat = row.data.endswith("-slices") or (row.data == "acdc" and not request.preset)
    if flat and dimensions == 3:
        return "needs a project of slices, tracoco init --dimensions 2"
    if not flat and dimensions == 2 and not request.preset:
        return "needs a project of volumes"
    chosen = request.best_on_test or runner.project.load_splits().validation
    if row.checkpoint == "best" and not chosen:
        return "best needs validation cases, or --best-on-test"
    return ""


def _check(planned: Sequence[_Planned], request: PaperRequest) -> None:
    """Tell every mistake now: the last row may come days after the first."""
    problems = []
    given = {change.partition("=")[0] for change in request.changes}
    for each in {(each.spec, each.runner.project.root): each for each in planned}.values():
        name = each.row.published.row
        for key in sorted(given & {change.partition("=")[0] for change in each.row.changes}):
            problems.append(f"row '{name}': --set {key} would make it another row; leave it out")
        try:
            each.runner.check(each.spec)
        except UserError as error:
            problems.append(f"row '{name}': {error}; --row chooses other rows")
    raise_all(list(dict.fromkeys(problems)))


def _title(each: _Planned) -> str:
    settings, row = each.spec.config(0), each.row
    labels = f"{settings.data.labelled} labelled cases" if settings.data.labelled else "all labels"
    return f"{row.published.row} on {each.runner.dataset}, {labels}, {row.checkpoint} checkpoint"
