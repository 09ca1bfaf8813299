"""Fill the paper's tables with our own results: run what is missing, then put both together."""

from collections.abc import Sequence
from dataclasses import dataclass

from tracoco.benchmark.result import RunResult
from tracoco.benchmark.run_spec import RunSpec
from tracoco.benchmark.runner import Runner, Scoring
from tracoco.console import say
from tracoco.paper.request import PaperRequest
from tracoco.paper.rows import PaperRow


@dataclass(frozen=True, slots=True)
class FilledRow:
    """A published row with our results, one for each seed, or why there are none."""

    row: PaperRow
    results: tuple[RunResult, ...] = ()
    reason: str = ""
    stand_in: str = ""
    """The project that our results are of, where it is not the paper's data set."""


@dataclass(frozen=True, slots=True)
class _Planned:
    row: PaperRow
    runner: Runner | None
    spec: RunSpec
    scoring: Scoring
    reason: str


def fill(rows: Sequence[PaperRow], request: PaperRequest) -> list[FilledRow]:
    """Bring every run of the rows to its end; rows that share a run share its result."""
    planned = [_plan(row, request) for row in rows]
    total = request.seeds * sum(1 for each in planned if not each.reason)
    filled, done = [], 0
    for each in planned:
        results = []
        if each.runner and not each.reason:
            for seed in range(request.seeds):
                done += 1
                say(f"{done} of {total}: {_title(each.row)}, seed {seed}")
                results.append(each.runner.result(each.spec, seed, each.scoring))
        filled.append(_filled(each, tuple(results)))
    return filled


def _plan(row: PaperRow, request: PaperRequest) -> _Planned:
    runner = request.runner(row.data)
    scoring = request.scoring(row.checkpoint, cct=row.published.cct)
    spec = request.spec(row.preset, row.changes)
    reason = row.missing or _not_here(row, runner, request)
    return _Planned(row, runner, spec, scoring, reason)


def _not_here(row: PaperRow, runner: Runner | None, request: PaperRequest) -> str:
    if runner is None:
        return f"no --project {row.data}=FOLDER"
    wanted = 2 if row.data.endswith("-slices") or row.data == "acdc" else 3
    dimensions = runner.project.load_plan().dimensions
    if dimensions != wanted and request.preset is None:
        return f"needs a {wanted}D project"
    if row.data.endswith("-slices") and dimensions != wanted:
        return "needs a 2D project"
    if row.checkpoint == "best" and not (
        request.best_on_test or runner.project.load_splits().validation
    ):
        return "best needs validation cases, or --best-on-test"
    return ""


def _filled(planned: _Planned, results: tuple[RunResult, ...]) -> FilledRow:
    names = {result.dataset for result in results} - {planned.row.data}
    return FilledRow(planned.row, results, planned.reason, ", ".join(sorted(names)))


def _title(row: PaperRow) -> str:
    each = row.published
    return f"{each.dataset} with {each.labelled} labels, {each.row}, {row.checkpoint} checkpoint"
