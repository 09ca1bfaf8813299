"""Runs compared in one table, and tables of scores for a terminal."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from tracoco.evaluation.evaluate import Evaluation
from tracoco.evaluation.scores import CaseScore, Summary
from tracoco.reporting.run_record import RunRecord, ScoreFile, ScoreSet, worst_first
from tracoco.settings import checked
from tracoco.text import UNDEFINED, count, number, spread


@dataclass(frozen=True, slots=True)
class ComparisonRow:
    """One line of a comparison. Overlaps in percent, distances in `units`; None is unknown."""

    run: str
    method: str
    labelled: int
    unlabelled: int
    steps: int
    """Steps that are done."""
    seed: int
    test_set: str | None = None
    checkpoint: str | None = None
    cases: int | None = None
    dice: float | None = None
    dice_sd: float | None = None
    jaccard: float | None = None
    asd: float | None = None
    hd95: float | None = None
    missed: int | None = None
    units: str | None = None
    note: str = ""
    """What must be known before the row is compared with the first one."""
    seconds: float | None = None
    """Mean time that a prediction took."""


def compare_runs(runs: Sequence[Path]) -> list[ComparisonRow]:
    """Rows in the order of the runs; a run without scores has a row without figures."""
    records = [(str(run), RunRecord.read(run)) for run in runs]
    first = next((scores for _, record in records for scores in record.scores), None)
    return [row for name, record in records for row in _rows(name, record, first)]


def _rows(name: str, run: RunRecord, first: ScoreSet | None) -> Iterator[ComparisonRow]:
    total = run.config.training.length
    about = [] if run.finished else [f"not finished: step {run.steps_done} of {total}"]
    about += [f"imported from {run.imported_from}"] if run.imported_from else []
    about += [f"{count(run.hidden_labels, 'label')} hidden"] if run.hidden_labels else []
    row = ComparisonRow(
        run=name,
        method=run.method,
        labelled=len(run.splits.labelled),
        unlabelled=len(run.unlabelled),
        steps=run.steps_done,
        seed=run.config.seed,
    )
    if first is None or not run.scores:
        yield replace(row, note="; ".join([*about, "not evaluated"]))
        return
    for scores in run.scores:
        watermark = [scores.file.watermark] if scores.file.watermark else []
        differences = [*_differences(scores, first), *run.seen_before(scores)]
        notes = [*watermark, *about, *differences]
        yield replace(_scored(row, scores), note="; ".join(notes))


def _scored(row: ComparisonRow, scores: ScoreSet) -> ComparisonRow:
    summary = scores.file.summary
    return replace(
        row,
        test_set=scores.name,
        checkpoint=scores.note.checkpoint or None,
        cases=summary.cases,
        dice=summary.dice,
        dice_sd=summary.dice_sd,
        jaccard=summary.jaccard,
        asd=summary.asd,
        hd95=summary.hd95,
        missed=summary.missed,
        units=scores.file.protocol.units,
        seconds=scores.seconds,
    )


def _differences(scores: ScoreSet, first: ScoreSet) -> Iterator[str]:
    """What the scores do not have in common with the first ones, and conventions that flatter."""
    own, other = scores.file, first.file
    shared = len(own.case_ids & other.case_ids)
    if own.case_ids != other.case_ids:
        yield f"other cases than the first row ({shared} in common)"
    if own.labels != other.labels:
        yield "other classes than the first row"
    if own.protocol.units != other.protocol.units:
        yield f"distances in {own.protocol.units}, not {other.protocol.units}"
    if own.protocol.empty != other.protocol.empty:
        yield f"empty masks count as {own.protocol.empty}, not {other.protocol.empty}"
    elif own.empty_as_zero:
        yield own.empty_as_zero
    if own.cleaning:
        yield own.cleaning
    elif other.cleaning:
        yield "small components were not removed"


WORST_CASES = 5

Cell = Callable[[ComparisonRow], str]
FACTS: dict[str, Cell] = {
    "method": lambda row: row.method,
    "labels": lambda row: f"{row.labelled}+{row.unlabelled}",
    "steps": lambda row: str(row.steps),
    "seed": lambda row: str(row.seed),
    "test set": lambda row: row.test_set or UNDEFINED,
    "checkpoint": lambda row: row.checkpoint or UNDEFINED,
    "cases": lambda row: _whole(row.cases),
}


def comparison_table(rows: Sequence[ComparisonRow]) -> Table:
    """Runs side by side: above the table what they share, under it what makes a row unlike."""
    units = sorted({row.units for row in rows if row.units})
    unit = f"\n{units[0]}" if len(units) == 1 else ""
    known = {name: _known(cell, rows) for name, cell in FACTS.items()}
    differing = [name for name, values in known.items() if len(values) > 1]
    table = _table(
        ("run", *differing), ("Dice\n%", "Jaccard\n%", f"ASD{unit}", f"HD95{unit}", "missed")
    )
    notes = list(dict.fromkeys(row.note for row in rows if row.note))
    for row in rows:
        mark = f" [{notes.index(row.note) + 1}]" if row.note else ""
        distances = (number(row.asd, 2), number(row.hd95, 2))
        if len(units) > 1 and row.units:
            distances = (f"{distances[0]} {row.units}", f"{distances[1]} {row.units}")
        _add_row(
            table,
            _run_name(row, rows) + mark,
            *(FACTS[name](row) for name in differing),
            spread(row.dice, row.dice_sd),
            number(row.jaccard),
            *distances,
            _whole(row.missed),
        )
    shared = [f"{name} {values[0]}" for name, values in known.items() if len(values) == 1]
    table.title = Text(", ".join(shared))
    _write_under(table, [f"[{index}] {note}" for index, note in enumerate(notes, start=1)])
    return table


def score_table(evaluation: Evaluation | Mapping[str, Any]) -> Table:
    """Means of each class, then the worst cases."""
    values = evaluation.to_json() if isinstance(evaluation, Evaluation) else evaluation
    file = checked(ScoreFile, values, "scores")
    unit = file.protocol.units
    headings = ("Dice\n%", "Jaccard\n%", f"ASD\n{unit}", f"HD95\n{unit}", "NSD\n%")
    table = _table(("case", "class"), headings)
    table.add_column("remark")
    means: list[tuple[str, Summary]] = [(row.name, row) for row in file.classes]
    if len(means) > 1:
        means.append(("all", file.summary))
    for name, row in means:
        dice, counts = spread(row.dice, row.dice_sd), _counts(row)
        _add_row(table, f"mean of {row.cases}", name, dice, *_figures(row), counts)
    table.add_section()
    worst = worst_first(file.rows)[:WORST_CASES]
    for score in (score for case in worst for score in case.rows):
        dice, remark = number(score.dice), _remark(score)
        _add_row(table, score.case, score.name, dice, *_figures(score), remark)
    conventions = [each for each in (file.empty_as_zero, file.cleaning) if each]
    _write_under(table, [*conventions, "below the means: the worst cases"])
    table.title = Text(file.watermark) if file.watermark else None
    return table


def _table(words: Sequence[str], figures: Sequence[str]) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, title_justify="left")
    for heading in words:
        table.add_column(heading, overflow="fold", vertical="top")
    for heading in figures:
        table.add_column(heading, justify="right", no_wrap=True)  # half a number is a wrong one
    return table


def _add_row(table: Table, *cells: str) -> None:
    # As text: a case that is called "[bold]" is not a wish for bold letters.
    table.add_row(*(Text(cell) for cell in cells))


def _write_under(table: Table, lines: Sequence[str]) -> None:
    table.caption, table.caption_justify = Text("\n".join(lines)) if lines else None, "left"


def _known(cell: Cell, rows: Sequence[ComparisonRow]) -> list[str]:
    """The values that a fact has in these rows, each once."""
    return [value for value in dict.fromkeys(map(cell, rows)) if value != UNDEFINED]


def _run_name(row: ComparisonRow, rows: Sequence[ComparisonRow]) -> str:
    """The folder's name, or all of its path where two runs share the name."""
    name = Path(row.run).name
    alike = {other.run for other in rows if Path(other.run).name == name}
    return name if name and len(alike) == 1 else row.run


def _whole(value: int | None) -> str:
    return UNDEFINED if value is None else str(value)


def _figures(row: Summary | CaseScore) -> list[str]:
    distances = (number(row.asd, 2), number(row.hd95, 2))
    return [number(row.jaccard), *distances, number(row.nsd)]


def _counts(row: Summary) -> str:
    counts = {"missed": row.missed, "spurious": row.spurious, "absent": row.absent}
    return ", ".join(f"{amount} {word}" for word, amount in counts.items() if amount)


def _remark(score: CaseScore) -> str:
    flags = {"missed": score.missed, "spurious": score.spurious, "absent": score.absent}
    return ", ".join(word for word, true in flags.items() if true)
