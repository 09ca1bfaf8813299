"""The paper's tables on a terminal and as plain values: published, ours, and the difference."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from tracoco.benchmark.result import Spread, over_seeds
from tracoco.paper.fill import FilledRow
from tracoco.report.wording import UNDEFINED, number

FIGURES = {"dice": "Dice\n%", "jaccard": "Jaccard\n%", "asd": "ASD\nvoxel", "hd95": "95HD\nvoxel"}


def filled_table(title: str, rows: Sequence[FilledRow]) -> Table:
    """For each row the published figures, then ours with their spread over seeds, if there are."""
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, title_justify="left")
    table.add_column("row", overflow="fold", min_width=14)
    table.add_column("")
    for heading in FIGURES.values():
        table.add_column(heading, justify="right", no_wrap=True)
    notes = list(dict.fromkeys(note for row in rows for note in _notes(row)))
    group = ""
    for row in rows:
        if _group(row) != group:
            group = _group(row)
            table.add_section()
            table.add_row(Text(group, style="bold"))
        marks = "".join(f" [{notes.index(note) + 1}]" for note in _notes(row))
        for first, (second, *figures) in zip(
            (row.row.published.row + marks, "", ""), _lines(row), strict=False
        ):
            table.add_row(*map(Text, (first, second, *figures)))
    table.title = Text(title)
    lines = [f"[{index}] {note}" for index, note in enumerate(notes, start=1)]
    table.caption, table.caption_justify = Text("\n".join(lines)) if lines else None, "left"
    return table


def _group(row: FilledRow) -> str:
    each = row.row.published
    count = "patients" if each.dataset == "acdc" else "scans"
    return f"{row.row.data}, {each.labelled} labelled {count}, {row.row.checkpoint} checkpoint"


def _lines(row: FilledRow) -> Iterator[tuple[str, ...]]:
    published = [getattr(row.row.published, key) for key in FIGURES]
    yield ("published", *(number(value, 2) for value in published))
    if row.results:
        ours = [over_seeds(row.results, key) for key in FIGURES]
        yield ("ours", *map(_spread, ours))
        pairs = zip(published, ours, strict=True)
        yield ("difference", *(_difference(*pair) for pair in pairs))


def filled_json(name: str, title: str, rows: Sequence[FilledRow]) -> dict[str, Any]:
    """The same as plain values."""
    return {"table": name, "title": title, "rows": [_row_json(row) for row in rows]}


def _row_json(row: FilledRow) -> dict[str, Any]:
    spreads = {key: over_seeds(row.results, key) for key in FIGURES}
    dice = spreads["dice"]
    return {
        **asdict(row.row.published),
        "data": row.row.data,
        "checkpoint": row.row.checkpoint,
        "stand_in": row.stand_in,
        "notes": _notes(row),
        "seeds": len(row.results),
        "missed": sum(result.missed for result in row.results) if row.results else None,
        **{f"our_{key}": spread and spread.mean for key, spread in spreads.items()},
        **{f"our_{key}_sd": spread and spread.sd for key, spread in spreads.items()},
        "difference": dice and dice.mean - row.row.published.dice,
    }


def _notes(row: FilledRow) -> list[str]:
    """What must be known to read the row."""
    notes = [row.reason] if row.reason else []
    if row.stand_in:
        notes.append(
            f"ours is of '{row.stand_in}', not of the paper's data: the difference says nothing"
        )
    notes += dict.fromkeys(result.watermark for result in row.results if result.watermark)
    missed = sum(result.missed for result in row.results)
    if missed:
        notes.append(f"{missed} structures missed, which the paper's protocol counts as distance 0")
    if len(row.results) == 1:
        notes.append("one seed: no spread")
    return notes


def _spread(value: Spread | None) -> str:
    if value is None:
        return UNDEFINED
    return number(value.mean, 2) + (f" ± {value.sd:.2f}" if value.sd is not None else "")


def _difference(published: float | None, ours: Spread | None) -> str:
    if published is None or ours is None:
        return UNDEFINED
    return f"{ours.mean - published:+.2f}"
