"""The paper's tables on a terminal and as plain values: published, ours, and the difference."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tracoco.benchmark.result import Spread, over_seeds
from tracoco.paper.fill import FilledRow
from tracoco.report.wording import UNDEFINED, number

FIGURES = {"dice": "Dice %", "jaccard": "Jaccard %", "asd": "ASD voxel", "hd95": "95HD voxel"}
SECONDS = {"seconds": "s/case"}
"""Only in the table that the paper has times in."""
OURS = {"seconds": "seconds_a_case"}
"""What a result calls a published figure, where the names differ."""


def filled_tables(title: str, rows: Sequence[FilledRow], notes: Sequence[str]) -> Group:
    """A table for each data set and number of labels, and below them what must be known."""
    every = list(dict.fromkeys(note for row in rows for note in (*notes, *_notes(row))))
    shown: list[RenderableType] = [Text(title)]
    for group, members in groupby(rows, _group):
        shown += [Text(f"\n{group}", style="bold"), _table(list(members), every)]
    shown += [Text(f"[{index}] {note}") for index, note in enumerate(every, start=1)]
    return Group(*shown)


def _table(rows: Sequence[FilledRow], notes: Sequence[str]) -> Table:
    """For each row the published figures; then ours, their spread over seeds, the difference."""
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("row", overflow="fold", min_width=16)
    table.add_column("", no_wrap=True)
    figures = FIGURES | (SECONDS if any(row.row.published.seconds for row in rows) else {})
    for heading in figures.values():
        table.add_column(heading.replace(" ", "\n"), justify="right", no_wrap=True)
    for row in rows:
        marks = "".join(f" [{notes.index(note) + 1}]" for note in _notes(row))
        lines = list(_lines(row, list(figures)))
        for first, line in zip((row.row.published.row + marks, "", "", ""), lines, strict=False):
            table.add_row(*map(Text, (first, *line)))
    return table


def _group(row: FilledRow) -> str:
    each = row.row.published
    count = "patients" if each.dataset == "acdc" else "scans"
    return f"{row.row.data}, {each.labelled} labelled {count}, {row.row.checkpoint} checkpoint"


def _lines(row: FilledRow, figures: Sequence[str]) -> Iterator[tuple[str, ...]]:
    published = [getattr(row.row.published, key) for key in figures]
    yield ("published", *(number(value, 2) for value in published))
    if not row.results:
        return
    ours = [over_seeds(row.results, OURS.get(key, key)) for key in figures]
    yield ("ours", *(number(spread.mean if spread else None, 2) for spread in ours))
    if len(row.results) > 1:
        yield ("spread", *(number(spread.sd if spread else None, 2) for spread in ours))
    pairs = zip(published, ours, strict=True)
    yield ("difference", *(_difference(*pair) for pair in pairs))


def filled_json(
    name: str, title: str, rows: Sequence[FilledRow], notes: Sequence[str]
) -> dict[str, Any]:
    """The same as plain values."""
    shown = [_row_json(row) for row in rows]
    return {"table": name, "title": title, "notes": list(notes), "rows": shown}


def _row_json(row: FilledRow) -> dict[str, Any]:
    published = row.row.published
    spreads = {key: over_seeds(row.results, OURS.get(key, key)) for key in (*FIGURES, *SECONDS)}
    pairs = {key: (getattr(published, key), spread) for key, spread in spreads.items()}
    first = row.results[0] if row.results else None
    return {
        **asdict(published),
        "data": row.row.data,
        "checkpoint": row.row.checkpoint,
        "stand_in": row.stand_in,
        "notes": _notes(row),
        "seeds": len(row.results),
        "our_labelled": first and first.labelled,
        "our_steps": first and first.steps,
        "missed": sum(result.missed for result in row.results) if row.results else None,
        **{f"our_{key}": spread and spread.mean for key, spread in spreads.items()},
        **{f"our_{key}_sd": spread and spread.sd for key, spread in spreads.items()},
        **{
            f"{key}_difference": spread.mean - known if spread and known is not None else None
            for key, (known, spread) in pairs.items()
        },
        "runs": [str(folder) for folder in row.folders],
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


def _difference(published: float | None, ours: Spread | None) -> str:
    if published is None or ours is None:
        return UNDEFINED
    return f"{ours.mean - published:+.2f}"
