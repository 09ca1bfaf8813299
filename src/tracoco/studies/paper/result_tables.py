"""The paper's tables on a terminal and as plain values: published, ours, and the difference."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tracoco.errors import UserError, did_you_mean
from tracoco.studies.benchmark.results import Spread, over_seeds
from tracoco.studies.paper.contents import Shown
from tracoco.studies.paper.fill import FilledRow, fill
from tracoco.studies.paper.inference_cost import CONVENTION, with_costs
from tracoco.studies.paper.request import PaperRequest
from tracoco.studies.paper.table_rows import TABLES, PaperRow, table_rows
from tracoco.text import UNDEFINED, number

FIGURES = {"dice": "Dice %", "jaccard": "Jaccard %", "asd": "ASD voxel", "hd95": "95HD voxel"}
SECONDS = {"seconds": "s/case"}
"""Only in the table that the paper has times in."""
COSTS = {"parameters_m": "Param. M", "macs_g": "MACs G"}
"""Of the network that predicts; only in the tables that the paper has them in."""
OURS = {"seconds": "seconds_a_case"}
"""What a result calls a published figure, where the names differ."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Which columns a table has; the same for all of its groups."""

    scales: bool
    """Whether the paper's table says how many scales a method learns at."""
    figures: dict[str, str]
    """Their headings by name."""
    costs: dict[str, str]
    """Those of costs. In a table of results ours stands below the published one; in a listing,
    where a row is one line, beside it, by the name `our_...`."""
    filled: bool
    """Whether there are results of ours."""

    @property
    def columns(self) -> dict[str, str]:
        """Headings of all numbers by name."""
        return self.figures | self.costs


def filled_tables(title: str, rows: Sequence[FilledRow], notes: Sequence[str]) -> Group:
    """A table for each data set and number of labels, and below them what must be known."""
    every = list(dict.fromkeys(note for row in rows for note in (*notes, *_notes(row))))
    layout = _layout(rows)
    shown: list[RenderableType] = [Text(title)]
    for group, members in groupby(rows, _group):
        shown += [Text(f"\n{group}", style="bold"), _table(list(members), every, layout)]
    shown.append(Text())
    shown += [Text(f"[{index}] {note}") for index, note in enumerate(every, start=1)]
    if any(row.cost for row in rows):
        shown.append(Text(CONVENTION))
    return Group(*shown)


def _layout(rows: Sequence[FilledRow]) -> Layout:
    def published(key: str) -> bool:
        return any(getattr(row.row.published, key) is not None for row in rows)

    filled, counted = any(row.results for row in rows), any(row.cost for row in rows)
    costs: dict[str, str] = {}
    for key, heading in COSTS.items():
        name, unit = heading.split()
        if filled and (counted or published(key)):
            costs[key] = heading
        elif published(key):
            costs[key] = f"{name} publ. {unit}"
        if counted and not filled:
            costs[f"our_{key}"] = f"{name} ours {unit}"
    seconds = {key: heading for key, heading in SECONDS.items() if published(key)}
    return Layout(any(row.row.scales for row in rows), FIGURES | seconds, costs, filled)


def _table(rows: Sequence[FilledRow], notes: Sequence[str], layout: Layout) -> Table:
    """For each row the published figures; then ours, their spread over seeds, the difference."""
    table = Table(box=SIMPLE_HEAD, padding=0, pad_edge=False, show_edge=False)
    table.add_column("row", overflow="fold", min_width=16)
    if layout.scales:
        table.add_column("scales", no_wrap=True)
    if layout.filled:
        table.add_column("", no_wrap=True)
    for key, heading in layout.columns.items():
        # As wide in every group, so that costs stand below each other.
        width = 6 if key in layout.costs else None
        words = heading.replace(" ", "\n")
        table.add_column(words, justify="right", no_wrap=True, min_width=width)
    for row in rows:
        marks = "".join(f" [{notes.index(note) + 1}]" for note in _notes(row))
        first = [row.row.published.row + marks, *([row.row.scales] if layout.scales else [])]
        for line in _lines(row, layout):
            table.add_row(*map(Text, (*first, *line)))
            first = [""] * len(first)
    return table


def _group(row: FilledRow) -> str:
    each = row.row.published
    count = "patients" if each.dataset == "acdc" else "scans"
    return f"{row.row.data}, {each.labelled} labelled {count}, {row.row.checkpoint} checkpoint"


def _lines(row: FilledRow, layout: Layout) -> Iterator[tuple[str, ...]]:
    if not layout.filled:
        yield tuple(number(_listed(row, key), 2) for key in layout.columns)
        return
    published = {key: getattr(row.row.published, key) for key in layout.columns}
    ours = {key: _ours(row, key) for key in layout.columns}
    yield ("published", *(number(value, 2) for value in published.values()))
    if row.results or row.cost:
        yield ("ours", *(number(spread.mean if spread else None, 2) for spread in ours.values()))
    if len(row.results) > 1:
        yield ("spread", *(number(spread.sd if spread else None, 2) for spread in ours.values()))
    if row.results:
        yield ("difference", *(_difference(published[key], ours[key]) for key in layout.columns))


def _listed(row: FilledRow, key: str) -> float | None:
    """A published figure, or what ours costs."""
    if not key.startswith("our_"):
        value: float | None = getattr(row.row.published, key)
        return value
    ours = _ours(row, key.removeprefix("our_"))
    return ours.mean if ours else None


def _ours(row: FilledRow, key: str) -> Spread | None:
    """Our figure with its spread over the seeds, which have one cost."""
    if key not in COSTS:
        return over_seeds(row.results, OURS.get(key, key))
    if row.cost is None:
        return None
    value = row.cost.parameters / 1e6 if key == "parameters_m" else row.cost.counted_macs / 1e9
    return Spread(value, None, 1)


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
    costs = {key: _ours(row, key) for key in COSTS}
    return {
        **asdict(published),
        "scales": row.row.scales or None,
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
        **{f"our_{key}": cost and cost.mean for key, cost in costs.items()},
        "our_true_macs_g": row.cost and row.cost.macs / 1e9,
        "runs": [str(folder) for folder in row.folders],
    }


def _notes(row: FilledRow) -> list[str]:
    """What must be known to read the row."""
    notes = [note for note in (row.reason, row.cost_note) if note]
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


def show_results(name: str, request: PaperRequest, wanted: tuple[str, ...]) -> Shown:
    """Fill a table, or show it as it was published."""
    rows = _chosen(table_rows(name), wanted)
    title = TABLES[name]
    if not request.projects:
        shown = [FilledRow(row, reason=row.missing) for row in rows]
        data = list(dict.fromkeys(row.data for row in rows if not row.missing))
        options = " ".join(f"--project {each}=FOLDER" for each in data)
        lines: tuple[str, ...] = (f"yours beside it: tracoco paper {name} {options} --seeds 3",)
    else:
        shown, lines = _only_data(fill(rows, request)), ()
    shown = with_costs(shown, request)
    notes = _changed(request)
    return Shown(filled_tables(title, shown, notes), filled_json(name, title, shown, notes), lines)


def _changed(request: PaperRequest) -> list[str]:
    """What was asked for in place of the paper's settings, so that nobody takes ours for them."""
    changes = [f"preset {request.preset}"] if request.preset else []
    changes += [f"{request.labelled} labelled cases"] if request.labelled else []
    changes += request.changes
    return [f"ours with {', '.join(changes)}, not the paper's settings"] if changes else []


def _chosen(rows: list[PaperRow], wanted: tuple[str, ...]) -> list[PaperRow]:
    known = {row.published.row for row in rows}
    for each in wanted:
        if each not in known:
            raise UserError(f"the table has no row '{each}'; {did_you_mean(each, known)}")
    return [row for row in rows if not wanted or row.published.row in wanted]


def _only_data(rows: list[FilledRow]) -> list[FilledRow]:
    """Leave out the data sets that no project was given for, unless that would leave nothing."""
    kept = [row for row in rows if not row.reason.startswith("no --project")]
    return kept or rows
