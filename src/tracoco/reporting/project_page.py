"""The report of a project: one HTML page, and its tables as CSV files beside it."""

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tracoco import __version__
from tracoco.evaluation.bootstrap import Interval
from tracoco.files import write_text
from tracoco.project.folder import Project
from tracoco.reporting.page import environment
from tracoco.reporting.project_record import ProjectRecord
from tracoco.text import number, signed

if TYPE_CHECKING:
    from collections.abc import Sequence

SHOWN_COLUMNS = 6
"""Runs whose Dice of each case is on the page; the CSV file has all."""
Value = str | float | int | None


@dataclass(frozen=True, slots=True)
class Column:
    """A heading, and whether numbers are below it."""

    name: str
    numeric: bool = False


@dataclass(frozen=True, slots=True)
class Cell:
    """What is shown, and what a table is sorted by."""

    text: str
    value: Value


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the page and of a CSV file."""

    name: str
    """Of the file, and of the section."""
    title: str
    about: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    csv_columns: tuple[str, ...]
    csv_rows: tuple[tuple[Value, ...], ...]


def write_project_report(project: Project) -> Path:
    """Write PROJECT/report/index.html, and a CSV file for each of its tables."""
    record = ProjectRecord.read(project)
    tables = [runs_table(record), structures_table(record), rounds_table(record)]
    tables.append(cases_table(record))
    folder = project.root / "report"
    for table in tables:
        write_text(folder / f"{table.name}.csv", _csv(table))
    page = environment().get_template("project.html.jinja")
    path = folder / "index.html"
    write_text(path, page.render(record=record, tables=tables, version=__version__))
    return path


def _csv(table: Table) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.csv_columns)
    writer.writerows(table.csv_rows)
    return text.getvalue()


def _word(text: str) -> Cell:
    return Cell(text, text)


def _figure(value: float | None, decimals: int = 1) -> Cell:
    return Cell(number(value, decimals), value)


def _with_limits(interval: Interval | None, *, sign: bool = False) -> Cell:
    """A mean with the limits of its interval."""
    if interval is None:
        return Cell(number(None), None)
    show = signed if sign else number
    limits = f"[{show(interval.low)}, {show(interval.high)}]"
    return Cell(f"{show(interval.mean)} {limits}", interval.mean)


def _limits(interval: Interval | None) -> tuple[Value, Value, Value]:
    return (interval.mean, interval.low, interval.high) if interval else (None, None, None)


def runs_table(record: ProjectRecord) -> Table:
    """All runs beside the supervised baseline."""
    rows, values = [], []
    for row in record.runs:
        run, scores = row.run, row.scores
        summary = scores.evaluation.summary if scores else None
        words = (row.name, run.method, scores.name if scores else "")
        counts = (len(run.splits.labelled), len(run.unlabelled), run.steps_done, run.config.seed)
        cases, missed = (summary.cases, summary.missed) if summary else (None, None)
        hd95 = summary.hd95 if summary else None
        rows.append(
            (
                *map(_word, words[:2]),
                *(_figure(count, 0) for count in counts),
                _word(words[2]),
                _figure(cases, 0),
                _with_limits(row.dice),
                _with_limits(row.difference, sign=True),
                _figure(hd95, 2),
                _figure(missed, 0),
                _word(row.note),
            )
        )
        values.append(
            (
                *words[:2],
                *counts,
                words[2],
                cases,
                *_limits(row.dice),
                row.baseline,
                *_limits(row.difference),
                hd95,
                missed,
                row.note,
            )
        )
    names = ("labelled", "unlabelled", "steps", "seed")
    return Table(
        "runs",
        "Runs",
        "Mean Dice with its 95 % interval (bootstrap over cases), and the difference to the "
        "supervised run with as many labels on the same cases. An interval of the difference that "
        "leaves out 0 is significant for one seed and one comparison.",
        (
            *map(Column, ("run", "method")),
            *(Column(name, numeric=True) for name in names),
            Column("scores"),
            *(
                Column(name, numeric=True)
                for name in ("cases", "Dice, %", "against supervised", "HD95", "missed")
            ),
            Column("note"),
        ),
        tuple(rows),
        (
            "run",
            "method",
            *names,
            "scores",
            "cases",
            "dice",
            "dice_low",
            "dice_high",
            "baseline",
            "difference",
            "difference_low",
            "difference_high",
            "hd95",
            "missed",
            "note",
        ),
        tuple(values),
    )


def structures_table(record: ProjectRecord) -> Table:
    """The scores of each structure."""
    rows, values = [], []
    for row, structure in record.structures:
        scores = row.scores.name if row.scores else ""
        figures = (structure.dice, structure.hd95, structure.nsd)
        counts = (structure.cases, structure.missed, structure.spurious)
        words = (row.name, scores, structure.name)
        shown = [_figure(value, digits) for value, digits in zip(figures, (1, 2, 1), strict=True)]
        rows.append((*map(_word, words), *shown, *(_figure(count, 0) for count in counts)))
        values.append((*words, *figures, *counts))
    columns = [
        Column(name, numeric=True)
        for name in ("Dice, %", "HD95", "NSD, %", "cases", "missed", "spurious")
    ]
    return Table(
        "structures",
        "Structures",
        "Means over the cases in which a value is defined. A missed structure has Dice 0 and no "
        "distance.",
        (*map(Column, ("run", "scores", "structure")), *columns),
        tuple(rows),
        ("run", "scores", "structure", "dice", "hd95", "nsd", "cases", "missed", "spurious"),
        tuple(values),
    )


def rounds_table(record: ProjectRecord) -> Table:
    """Rounds of labelling."""
    rows, values = [], []
    for row in record.rounds:
        done = row.round
        added, corrected = ", ".join(done.added), ", ".join(done.corrected)
        run = done.run or "not trained yet"
        rows.append(
            (
                _figure(done.number, 0),
                *map(_word, (added, corrected)),
                _figure(done.labelled, 0),
                *map(_word, (run, done.start, done.part)),
                *map(_figure, (row.before, row.after)),
                _with_limits(row.change, sign=True),
            )
        )
        values.append(
            (
                done.number,
                added,
                corrected,
                done.labelled,
                done.run,
                done.start,
                done.part,
                row.before,
                row.after,
                *_limits(row.change),
            )
        )
    words = ("new labels", "corrected labels")
    return Table(
        "rounds",
        "Rounds of labelling",
        "Dice (%) on cases that no round takes labels of, by the run before and by the run that "
        "learnt from the new labels; the change is of the same cases, with its 95 % interval.",
        (
            Column("round", numeric=True),
            *map(Column, words),
            Column("labels", numeric=True),
            *map(Column, ("run", "started from", "cases")),
            *(Column(name, numeric=True) for name in ("before", "after", "change")),
        ),
        tuple(rows),
        (
            "round",
            "added",
            "corrected",
            "labelled",
            "run",
            "start",
            "part",
            "before",
            "after",
            "change",
            "change_low",
            "change_high",
        ),
        tuple(values),
    )


def cases_table(record: ProjectRecord) -> Table:
    """All cases, with their Dice by the newest runs."""
    rows, values = [], []
    for case in record.cases:
        known = case.uncertainty
        unsure = (known.disagreement, known.entropy) if known else (None, None)
        percent = None if unsure[0] is None else 100 * unsure[0]
        rows.append(
            (
                *map(_word, (case.case, case.part)),
                _figure(case.round, 0),
                _figure(percent),
                _figure(unsure[1], 2),
                *map(_figure, case.dice[-SHOWN_COLUMNS:]),
            )
        )
        values.append((case.case, case.part, case.round, *unsure, *case.dice))
    shown: Sequence[str] = record.columns[-SHOWN_COLUMNS:]
    figures = ("labelled in round", "disagreement, %", "entropy")
    by = f" Disagreement and entropy are those of {record.measured_by}." * bool(record.measured_by)
    return Table(
        "cases",
        "Cases",
        f"Every scan of the project, with its mean Dice (%) by each run that was scored on it.{by}",
        (
            *map(Column, ("case", "part")),
            *(Column(name, numeric=True) for name in figures),
            *(Column(f"Dice, {name}", numeric=True) for name in shown),
        ),
        tuple(rows),
        (
            "case",
            "part",
            "round",
            "disagreement",
            "entropy",
            *tuple(f"dice {name}" for name in record.columns),
        ),
        tuple(values),
    )
