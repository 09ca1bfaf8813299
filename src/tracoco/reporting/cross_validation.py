"""Runs of all folds as one result: every labelled case once, by the run that held it out."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from tracoco.config import Config, recorded_settings
from tracoco.evaluation.bootstrap import grouped_interval
from tracoco.evaluation.scores import Evaluation
from tracoco.project.folder import Project
from tracoco.project.splits import members
from tracoco.reporting.pairs import FEWEST_CASES
from tracoco.reporting.run_record import RunRecord, ScoreSet, read_scores
from tracoco.reporting.tables import add_row, new_table, write_under
from tracoco.settings import by_dotted_name
from tracoco.text import UNDEFINED, html_table, listed, number, spread

MEANING = (
    "all: every case once, predicted by the run that did not learn from it",
    "95 % interval: bootstrap over patients; another seed, and folds dealt in another way, are not "
    "covered",
)


@dataclass(frozen=True, slots=True)
class FoldRow:
    """The cases of one fold, or of all. Overlaps in percent; None is undefined."""

    fold: int | None
    """None for all folds together."""
    run: str
    """The folder of the run; empty for all folds together."""
    cases: int
    dice: float | None
    dice_sd: float | None
    low: float | None
    """Of the 95 % interval of the mean Dice; None for fewer than six patients."""
    high: float | None
    jaccard: float | None
    asd: float | None
    hd95: float | None
    missed: int


@dataclass(frozen=True, slots=True)
class HeldOutCase:
    """A case, and its Dice in percent by the run that held it out."""

    case: str
    fold: int
    dice: float | None


@dataclass(frozen=True, slots=True)
class CrossValidation:
    """What `cross_validate` finds."""

    rows: tuple[FoldRow, ...]
    """One for each fold that has a run."""
    all: FoldRow
    """All cases of these folds together."""
    cases: tuple[HeldOutCase, ...]
    """The worst first."""
    missing_folds: tuple[int, ...]
    units: str
    """Of distances."""
    remarks: tuple[str, ...]
    """What must be known of the result."""

    def to_json(self) -> dict[str, Any]:
        """Plain values by the names of the fields."""
        return asdict(self)

    def _repr_html_(self) -> str:
        """For a notebook: a row for each fold and one for all."""
        cells = [_cells(row) for row in (*self.rows, self.all)]
        notes = html_table((), [(line,) for line in self.remarks]) if self.remarks else ""
        return html_table(_headings(self.units), cells) + notes


def pooled(project: Project, folders: Sequence[Path]) -> CrossValidation:
    """The result of evaluated predictions of folds, each in the folder of its run.

    Args:
        project: whose folds they are.
        folders: RUN/predictions/NAME with the scores of that run's fold.
    """
    records = [(RunRecord.read(folder.parents[1]), read_scores(folder)) for folder in folders]
    records.sort(key=lambda record: record[0].config.data.fold or 0)
    ids = members(project.load_cases()).items()
    group_of = {case: group for group, cases in ids for case in cases}
    rows = tuple(
        _row(run.config.data.fold, str(run.root), scores.evaluation, group_of)
        for run, scores in records
    )
    every = [row for _, scores in records for row in scores.evaluation.rows]
    whole = Evaluation(tuple(every), records[0][1].evaluation.protocol)
    fold_of = {
        case: run.config.data.fold or 0
        for run, scores in records
        for case in scores.evaluation.case_ids
    }
    folds = project.load_splits().folds
    missing = sorted({*range(1, len(folds) + 1)} - {row.fold for row in rows if row.fold})
    remarks = [_missing(missing)] if missing else []
    remarks += [
        f"{run.root.name}: {line}" for run, scores in records for line in _about(run, scores, folds)
    ]
    remarks += _unlike([run for run, _ in records])
    return CrossValidation(
        rows,
        _row(None, "", whole, group_of),
        tuple(HeldOutCase(each.case, fold_of[each.case], each.dice) for each in whole.cases),
        tuple(missing),
        whole.protocol.units,
        (*remarks, *whole.remarks),
    )


def _row(fold: int | None, run: str, scored: Evaluation, group_of: Mapping[str, str]) -> FoldRow:
    summary = scored.summary
    dice = {case.case: case.dice for case in scored.cases if case.dice is not None}
    groups = [group_of.get(case, case) for case in dice]
    enough = len(set(groups)) >= FEWEST_CASES
    interval = grouped_interval(list(dice.values()), groups) if enough else None
    return FoldRow(
        fold,
        run,
        summary.cases,
        summary.dice,
        summary.dice_sd,
        interval.low if interval else None,
        interval.high if interval else None,
        summary.jaccard,
        summary.asd,
        summary.hd95,
        summary.missed,
    )


def _missing(folds: Sequence[int]) -> str:
    names = ", ".join(map(str, folds))
    which = f"folds {names} have" if len(folds) > 1 else f"fold {names} has"
    return f"warning: {which} no run, and the cases are not counted; train with --fold"


def _about(run: RunRecord, scores: ScoreSet, folds: Sequence[Sequence[str]]) -> Iterator[str]:
    """What makes the scores of a run other than those of a finished run on unknown cases."""
    if not run.finished:
        yield f"not finished: step {run.steps_done} of {run.config.training.length}"
    if scores.evaluation.watermark:
        yield scores.evaluation.watermark
    if scores.manifest.variant:
        yield f"predicted with: {scores.manifest.variant}"
    yield from run.seen_before(scores)
    start = run.facts.init_from
    if seen := scores.evaluation.case_ids.intersection(start.seen if start else ()):
        yield f"the run that it starts from has learnt from {listed(sorted(seen))}"
    number = run.config.data.fold or 0
    if set(folds[number - 1]) != set(run.splits.held_out(number)):
        yield f"fold {number} of the project has changed since this run was trained"


def _unlike(runs: Sequence[RunRecord]) -> Iterator[str]:
    """The settings in which runs differ from the first, besides the fold."""
    first = _settings(runs[0].config)
    for run in runs[1:]:
        other = _settings(run.config)
        names = [name for name in {**first, **other} if first.get(name) != other.get(name)]
        if names:
            yield f"{run.root.name} has other settings than {runs[0].root.name}: {', '.join(names)}"


def _settings(config: Config) -> dict[str, Any]:
    named = {"seed": config.seed} | dict(by_dotted_name(recorded_settings(config)))
    return {name: value for name, value in named.items() if name != "data.fold"}


def _headings(units: str) -> tuple[str, ...]:
    distances = f"ASD\n{units}", f"HD95\n{units}"
    return ("fold", "run", "cases", "Dice\n%", "95 % interval", "Jaccard\n%", *distances, "missed")


def _cells(row: FoldRow) -> tuple[str, ...]:
    interval = f"[{number(row.low)}, {number(row.high)}]"
    return (
        "all" if row.fold is None else str(row.fold),
        Path(row.run).name,
        str(row.cases),
        spread(row.dice, row.dice_sd),
        UNDEFINED if row.low is None else interval,
        number(row.jaccard),
        number(row.asd, 2),
        number(row.hd95, 2),
        str(row.missed),
    )


def fold_table(found: CrossValidation) -> Table:
    """A line for each fold, then one for all cases."""
    headings = _headings(found.units)
    table = new_table(headings[:2], headings[2:])
    for row in found.rows:
        add_row(table, *_cells(row))
    table.add_section()
    add_row(table, *_cells(found.all))
    write_under(table, [*found.remarks, *MEANING])
    return table
