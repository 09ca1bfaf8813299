"""Tables for a terminal: runs compared, scores of an evaluation, context sensitivity."""

from collections.abc import Callable, Sequence
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from tracoco.evaluation.calibration import Calibration
from tracoco.evaluation.context_sensitivity import ContextSensitivity
from tracoco.evaluation.scores import CaseScore, Evaluation, Summary
from tracoco.evaluation.tune import TuneResult
from tracoco.reporting.comparison import ComparisonRow
from tracoco.text import UNDEFINED, count, number, signed, spread

WORST_CASES = 5

Cell = Callable[[ComparisonRow], str]
COLUMNS: dict[str, Cell] = {
    "method": lambda row: row.method,
    "recipe": lambda row: row.recipe or UNDEFINED,
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
    known = {name: _known(cell, rows) for name, cell in COLUMNS.items()}
    differing = [name for name, values in known.items() if len(values) > 1]
    table = new_table(
        ("run", *differing), ("Dice\n%", "Jaccard\n%", f"ASD{unit}", f"HD95{unit}", "missed")
    )
    notes = list(dict.fromkeys(row.note for row in rows if row.note))
    for row in rows:
        mark = f" [{notes.index(row.note) + 1}]" if row.note else ""
        distances = (number(row.asd, 2), number(row.hd95, 2))
        if len(units) > 1 and row.units:
            distances = (f"{distances[0]} {row.units}", f"{distances[1]} {row.units}")
        add_row(
            table,
            _run_name(row, rows) + mark,
            *(COLUMNS[name](row) for name in differing),
            spread(row.dice, row.dice_sd),
            number(row.jaccard),
            *distances,
            _whole(row.missed),
        )
    shared = [f"{name} {values[0]}" for name, values in known.items() if len(values) == 1]
    table.title = Text(", ".join(shared))
    write_under(table, [f"[{index}] {note}" for index, note in enumerate(notes, start=1)])
    return table


def score_table(evaluation: Evaluation) -> Table:
    """Means of each class, then the worst cases."""
    unit = evaluation.protocol.units
    headings = ("Dice\n%", "Jaccard\n%", f"ASD\n{unit}", f"HD95\n{unit}", "NSD\n%")
    table = new_table(("case", "class"), headings)
    table.add_column("remark")
    means: list[tuple[str, Summary]] = [(row.name, row) for row in evaluation.classes]
    if len(means) > 1:
        means.append(("all", evaluation.summary))
    for name, row in means:
        dice, counts = spread(row.dice, row.dice_sd), _counts(row)
        add_row(table, f"mean of {row.cases}", name, dice, *_metrics(row), counts)
    table.add_section()
    worst = evaluation.cases[:WORST_CASES]
    for score in (score for case in worst for score in case.rows):
        dice, remark = number(score.dice), _remark(score)
        add_row(table, score.case, score.name, dice, *_metrics(score), remark)
    conventions = list(evaluation.remarks)
    if evaluation.calibration:
        conventions.append(calibration_text(evaluation.calibration))
    write_under(table, [*conventions, "below the means: the worst cases"])
    table.title = Text(evaluation.watermark) if evaluation.watermark else None
    return table


def context_table(result: ContextSensitivity) -> Table:
    """Each scan, then the means."""
    table = new_table(("scan",), ("disagreement\n%", "KL\nnats", "differing\nvoxels, %", "pairs"))
    for row in result.rows:
        measures = (row.disagreement, row.divergence, row.differing)
        cells = (number(value, digits) for value, digits in zip(measures, (2, 4, 2), strict=True))
        add_row(table, row.scan, *cells, str(row.pairs))
    summary = result.summary
    table.add_section()
    table.add_row(
        f"mean of {summary.scans - summary.scans_without_room}",
        spread(summary.disagreement, summary.disagreement_sd, 2),
        spread(summary.divergence, summary.divergence_sd, 4),
        spread(summary.differing, summary.differing_sd, 2),
        str(summary.pairs),
    )
    write_under(table, [context_meaning(result), *context_remarks(result)])
    return table


def calibration_text(calibration: Calibration) -> str:
    """How far probabilities are from the fractions that are right."""
    return (
        f"expected calibration error {number(calibration.ece)} %, confidence minus accuracy "
        f"{signed(calibration.overconfidence)} points, over voxels with 1 % or more foreground"
    )


def tune_table(result: TuneResult) -> Table:
    """Each option that was tried on validation cases."""
    table = new_table(("option",), ("Dice\n%", "difference\npoints", "p\ncorrected"))
    table.add_column("recorded")
    for row in result.rows:
        cells = (number(row.dice), signed(row.difference, 2), number(row.p, 3))
        add_row(table, row.option or "plain prediction", *cells, "yes" if row.chosen else "")
    cases = count(len(result.cases), "validation case")
    lines = [f"on {cases}; p: one-sided paired t test, corrected for the number of options (Holm)"]
    if len(result.cases) == 1:
        lines.append("warning: one case cannot tell a gain from noise, so nothing is recorded")
    write_under(table, lines)
    return table


def context_meaning(result: ContextSensitivity) -> str:
    """The result in one sentence."""
    if result.summary.differing is None:
        return "No scan is larger than the crop, so there is nothing to compare."
    return (
        "Moved by up to half a crop, the run changes its label in "
        f"{number(result.summary.differing, 2)} % of the voxels that it sees both times. "
        "Lower is better, but a network that finds nothing never changes a label: "
        "read it beside the Dice."
    )


def context_remarks(result: ContextSensitivity) -> list[str]:
    """What a reader must know: the watermark of the checkpoint, and what is left out."""
    empty, small = result.summary.empty_pairs, result.summary.scans_without_room
    remarks = [result.watermark] if result.watermark else []
    if empty:
        pairs = count(empty, "pair")
        remarks.append(f"{pairs} without foreground in either prediction: disagreement undefined")
    if small:
        scans = count(small, "scan")
        remarks.append(f"{scans} no larger than the crop: no room to translate, not counted")
    return remarks


def new_table(words: Sequence[str], numbers: Sequence[str]) -> Table:
    """A table with these columns of words and of numbers, and no rows."""
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, title_justify="left")
    for heading in words:
        table.add_column(heading, overflow="fold", vertical="top")
    for heading in numbers:
        table.add_column(heading, justify="right", no_wrap=True)  # half a number is a wrong one
    return table


def add_row(table: Table, *cells: str) -> None:
    """Add a row of plain text."""
    # As text: a case that is called "[bold]" is not a wish for bold letters.
    table.add_row(*(Text(cell) for cell in cells))


def write_under(table: Table, lines: Sequence[str]) -> None:
    """Put lines below the table."""
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


def _metrics(row: Summary | CaseScore) -> list[str]:
    distances = (number(row.asd, 2), number(row.hd95, 2))
    return [number(row.jaccard), *distances, number(row.nsd)]


def _counts(row: Summary) -> str:
    counts = {"missed": row.missed, "spurious": row.spurious, "absent": row.absent}
    return ", ".join(f"{amount} {word}" for word, amount in counts.items() if amount)


def _remark(score: CaseScore) -> str:
    flags = {"missed": score.missed, "spurious": score.spurious, "absent": score.absent}
    return ", ".join(word for word, true in flags.items() if true)
